// Makes types of the OpenAPI document on standard input, so that the console and the API cannot
// disagree: the schemas go to model.ts, the calls to path.ts, both in src/api or the given folder.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const HEAD = "// Made by `make console-types` from the OpenAPI document of the API.\n\n";
const API = "/api/";
const METHODS = ["get", "post", "put", "patch", "delete"];
const LEFT_OUT = new Set(["HTTPValidationError", "ValidationError"]);
const WIDTH = 100;

const folder = process.argv[2] ?? join(import.meta.dirname, "src", "api");
const { components, paths } = JSON.parse(readFileSync(0, "utf8"));
writeFileSync(join(folder, "model.ts"), HEAD + modelOf(components.schemas));
writeFileSync(join(folder, "path.ts"), HEAD + pathsOf(paths));

function modelOf(schemas) {
    return Object.entries(schemas)
        .filter(([name]) => !LEFT_OUT.has(name))
        .map(declare)
        .join("\n");
}

function declare([name, schema]) {
    const words = (schema.description ?? "").split("\n")[0];
    const head = words ? `/** ${words} */\n` : "";
    if (!schema.properties) return `${head}export type ${name} = ${typeOf(schema)};\n`;
    // A body may leave out what is not required; an answer has all of its fields.
    const isBody = schema.additionalProperties === false;
    const fields = Object.entries(schema.properties).map(([field, of]) => {
        const isOptional = isBody && !(schema.required ?? []).includes(field);
        return `${field}${isOptional ? "?" : ""}: ${typeOf(of)};`;
    });
    return `${head}export interface ${name} {\n${filled(fields, "  ")}\n}\n`;
}

/** An interface for each method: what each of its paths takes, and what it answers. */
function pathsOf(all) {
    const calls = Object.entries(all).filter(([path]) => path.startsWith(API));
    const made = METHODS.flatMap((method) => {
        const some = calls.filter(([, item]) => item[method]);
        if (some.length === 0) return [];
        const lines = some.map(([path, item]) => callOf(path.slice(API.length), item[method]));
        const name = method[0].toUpperCase() + method.slice(1);
        return `export interface ${name} {\n${lines.join("\n")}\n}\n`;
    });
    const maybe = "type Maybe<T> = T | null | undefined;\n";
    return `import type * as Model from "./model";\n\n${maybe}\n${made.join("\n")}`;
}

function callOf(path, call) {
    const body = call.requestBody;
    const parts = [
        ...partOf("params", call, "path"),
        ...partOf("query", call, "query"),
        ...(body ? [`body${body.required ? "" : "?"}: ${typeOf(schemaIn(body), "Model.")};`] : []),
        `answer: ${answerOf(call)};`,
    ];
    const line = `  "${path}": { ${parts.join(" ")} };`;
    return line.length <= WIDTH ? line : `  "${path}": {\n${filled(parts, "    ")}\n  };`;
}

function partOf(name, call, place) {
    const fields = (call.parameters ?? []).filter((each) => each.in === place);
    if (fields.length === 0) return [];
    const isOptional = fields.every((each) => !each.required);
    const types = fields.map((each) => `${each.name}${addressed(each)};`);
    const head = `${name}${isOptional ? "?" : ""}: {`;
    const line = `${head} ${types.join(" ")} };`;
    return [line.length < WIDTH - 4 ? line : `${head}\n${filled(types, "      ")}\n    };`];
}

/** What stands in an address is text, so that a number may be given as text. */
function addressed({ schema, required }) {
    const types = typeOf(schema, "Model.").split(" | ");
    if (types.includes("number")) types.push("string");
    const given = types.filter((type) => type !== "null").join(" | ");
    return required ? `: ${given}` : `?: Maybe<${given}>`;
}

function answerOf(call) {
    const answers = Object.entries(call.responses)
        .filter(([status]) => status.startsWith("2"))
        .map(([, answer]) => typeOf(schemaIn(answer), "Model."));
    return [...new Set(answers)].join(" | ");
}

function schemaIn({ content }) {
    return content?.["application/json"]?.schema ?? {};
}

function typeOf(schema, prefix = "") {
    const each = (of) => typeOf(of, prefix);
    if (schema.$ref) return prefix + schema.$ref.split("/").at(-1);
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
    const any = schema.anyOf ?? schema.oneOf;
    if (any) return [...new Set(any.map(each))].join(" | ");
    if (schema.prefixItems) return `readonly [${schema.prefixItems.map(each).join(", ")}]`;
    if (schema.type === "array") return listOf(each(schema.items ?? {}));
    if (schema.type === "integer") return "number";
    if (schema.type === "object") return recordOf(schema.additionalProperties, each);
    return ["string", "number", "boolean", "null"].includes(schema.type) ? schema.type : "unknown";
}

function listOf(item) {
    return /[ |]/.test(item) ? `readonly (${item})[]` : `readonly ${item}[]`;
}

function recordOf(values, each) {
    return `Readonly<Record<string, ${typeof values === "object" ? each(values) : "unknown"}>>`;
}

/** Fields side by side, as many as a line holds. */
function filled(fields, indent) {
    const lines = [];
    for (const field of fields) {
        const last = lines.at(-1);
        if (last !== undefined && last.length + field.length < WIDTH - 2)
            lines.push(`${lines.pop()} ${field}`);
        else lines.push(indent + field);
    }
    return lines.join("\n");
}
