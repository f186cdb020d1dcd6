import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["node_modules", "src/api/model.ts", "src/api/path.ts"] },
  js.configs.recommended,
  {
    files: ["**/*.{ts,tsx}"],
    extends: [ts.configs.strict, ts.configs.stylistic],
    plugins: { "react-hooks": hooks },
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      "max-lines": ["error", 600],
      "no-restricted-syntax": [
        "error",
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: "Text from users is shown as text only.",
        },
      ],
    },
  },
  {
    files: ["src/**", "test/**"],
    ignores: ["src/api/**"],
    rules: {
      "no-restricted-imports": [
        "error",
        { patterns: [{ group: ["**/api/model"], message: "Name the path: Answer<…> or Row<…>." }] },
      ],
    },
  },
  {
    files: ["public/*.js", "*.mjs"],
    languageOptions: {
      globals: {
        document: "readonly",
        localStorage: "readonly",
        process: "readonly",
        URL: "readonly",
      },
    },
  },
);
