/** Chinese, of the settings. */
import type { Dictionary } from "../en";

export const about: Dictionary["about"] = {
  answers: "应答耗时",
  auto: "跟随系统",
  dark: "深色",
  database: "数据库",
  databases: "数据库",
  expires: "有效期至",
  language: "语言",
  light: "浅色",
  look: "外观",
  name: "名字",
  openapi: "OpenAPI 文档",
  role: "角色",
  roles: {
    admin: "管理员：拥有全部权限",
    operator: "操作员",
    producer: "生产者：供程序使用",
    viewer: "查看者：只能看，不能操作",
  },
  schema: "表结构",
  server: "服务器",
  connection: "连接用户",
  plain: "未加密",
  theme: "主题",
  versions: "版本",
  well: "声明没有问题。",
  who: "你",
};
