export default { build: { assetsInlineLimit: 0 }, vite: { build: { assetsInlineLimit: 0 } } };
