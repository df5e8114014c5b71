export const load = () => ({ pages: "EDITION".length });
