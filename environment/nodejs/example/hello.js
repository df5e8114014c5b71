// Greets who asks: GET /hello?name=Ada
module.exports = async (context) => {
  const name = context.request.query.name || "world";
  console.log("greeting", name);
  return { status: 200, body: `Hello, ${name}!\n` };
};
