// Answers an event of somebody's arrival with one that greets: {"name": "Ada"}
export const handler = async (event) => {
  const { name } = event.data;
  console.log("greeting", name);
  return {
    specversion: "1.0",
    type: "greeting",
    source: "/example/greet",
    datacontenttype: "application/json",
    data: { text: `Hello, ${name}!` },
  };
};
