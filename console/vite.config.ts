import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Addresses are relative, so that one build works under every path it is mounted at.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../src/windlass/web/static",
    emptyOutDir: true,
    target: "es2022",
    // Nothing may be inlined: the page's policy allows only its own files.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: { "/api": process.env.WINDLASS_CONSOLE ?? "http://127.0.0.1:8484" },
  },
  test: { include: ["test/**/*.test.{ts,tsx}"] },
});
