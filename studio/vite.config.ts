import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Names without hashes: the server sends entity tags, and a change of the bundle stays readable in the history.
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../hopgraph/studio/bundle",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 2000,
    license: { fileName: "licenses.md" },
    rolldownOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
});
