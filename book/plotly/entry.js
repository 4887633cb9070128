// The part of Plotly that the book's figures need: lines and dots are in the core. In a folder of its own, with this file:
//
//   npm install plotly.js@3.7.0 esbuild@0.28
//   npx esbuild entry.js --bundle --minify --format=iife --global-name=Plotly --target=es2021 --define:global=window \
//     --legal-comments=none --banner:js='/* plotly.js v3.7.0, a part; MIT, Plotly, Inc.: see LICENSE */' --outfile=plotly.min.js
//
// The version is the one that plotly.py carries, which JupyterLab draws with.
const Plotly = require("plotly.js/lib/core");
Plotly.register([require("plotly.js/lib/bar"), require("plotly.js/lib/heatmap")]);
module.exports = Plotly;
