import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["src/**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.browser },
    rules: {
      eqeqeq: "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Set textContent or append nodes: texts come from files of others." },
        { property: "outerHTML", message: "Set textContent or append nodes: texts come from files of others." },
      ],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
