// Makes types of the OpenAPI document on standard input, so that the console and the API cannot
// disagree: `make console-types` puts them into src/api/model.ts.
import { readFileSync } from "node:fs";

const { schemas } = JSON.parse(readFileSync(0, "utf8")).components;

function typeOf(schema) {
    if (schema.$ref) return schema.$ref.split("/").at(-1);
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
    const any = schema.anyOf ?? schema.oneOf;
    if (any) return [...new Set(any.map(typeOf))].join(" | ");
    if (schema.type === "array") return listOf(schema);
    if (schema.type === "integer") return "number";
    if (schema.type === "object") return recordOf(schema);
    return ["string", "number", "boolean", "null"].includes(schema.type) ? schema.type : "unknown";
}

function listOf(schema) {
    if (schema.prefixItems) return `readonly [${schema.prefixItems.map(typeOf).join(", ")}]`;
    const item = typeOf(schema.items ?? {});
    return /[ |]/.test(item) ? `readonly (${item})[]` : `readonly ${item}[]`;
}

function recordOf(schema) {
    const values = schema.additionalProperties;
    return `Readonly<Record<string, ${typeof values === "object" ? typeOf(values) : "unknown"}>>`;
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
    return `${head}export interface ${name} {\n${filled(fields)}\n}\n`;
}

/** Fields side by side, as many as a line holds. */
function filled(fields) {
    const lines = [];
    for (const field of fields) {
        const last = lines.at(-1);
        if (last !== undefined && last.length + field.length < 98)
            lines.push(`${lines.pop()} ${field}`);
        else lines.push(`  ${field}`);
    }
    return lines.join("\n");
}

const left_out = new Set(["HTTPValidationError", "ValidationError"]);
const parts = Object.entries(schemas)
    .filter(([name]) => !left_out.has(name))
    .map(declare);
process.stdout.write(
    `// Made by \`make console-types\` from the OpenAPI document of the API.\n\n${parts.join("\n")}`,
);
