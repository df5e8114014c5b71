export default { title: "EDITION", themeConfig: { search: { provider: "local" }, nav: [{ text: "Guide", link: "/guide" }] } };
