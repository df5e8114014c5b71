package environment_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
)

// A function takes a WebSocket when the one that an entry point exports does, whatever else its file has.
func TestSocket(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		language, entry, source string
		line                    int
	}{
		{"node", "f", "module.exports = async function(ws, clients) {\n}", 1},
		{"node", "f", "// chat\nmodule.exports = async (socket, clients) => {\n}", 2},
		{"node", "f", "const x = /['\"]/;\nasync function chat(connection, clients) {}\nmodule.exports = chat;\n", 2},
		{"node", "f", "const chat = async function (ws, clients) {}\nmodule.exports = chat", 1},
		{"node", "f", "export default async function (ws, clients) {\n}", 1},
		{"node", "f", "const a = `${[`{`, '}'].map(x => { return x })}`\nmodule.exports = async (ws, clients) => {}", 2},
		{"node", "f.chat", "exports.chat = async (ws, clients) => {}", 1},
		{"node", "f.chat", "module.exports.chat = (ws, clients) => {}", 1},
		{"node", "f.chat", "export async function chat(ws, clients) {}", 1},
		{"node", "f.chat", "export const chat = (ws, clients) => {}", 1},
		{"node", "f.chat", "function chat(ws, clients) {}\nmodule.exports = { other, chat }", 1},
		{"node", "f.chat", "module.exports = { chat: async function (ws, clients) {} }", 1},
		{"node", "f.chat", "module.exports = {\n  chat(ws, clients) {}\n}", 2},
		{"python", "f.main", "import os\ndef main(ws, clients):\n    pass", 2},
		{"python", "f.main", "\"\"\"it's\"\"\"\nasync def main(ws, clients):\n    m = ws.receive()", 2},

		{"python-fastapi", "f.main",
			"from fastapi import WebSocket\n\nasync def main(ws: WebSocket, clients: dict):\n    pass", 3},
		{"python-fastapi", "", "async def main(websocket, clients):\n    pass", 1},

		{"python-fastapi", "f.app", "async def app(scope, receive, send):\n    pass", 0},
		{"node", "f", "// (ws, clients) {\nmodule.exports = async c => ({status: 200, body: ''})", 0},
		{"node", "f", "/* module.exports = async function(ws, clients) {} */\nmodule.exports = async (context) => 1", 0},
		{"node", "f", "const text = `\nmodule.exports = function(ws, clients) {}\n`\nmodule.exports = async () => text", 0},
		{"node", "f", "const a = \"module.exports = (ws, clients) => {\"\nmodule.exports = async () => a", 0},
		{"node", "f", "function broadcast(ws, clients) {}\nmodule.exports = async (context) => broadcast(null, [])", 0},
		{"node", "f", "const WebSocket = require('ws')\nconst s = new WebSocket.Server({noServer: " +
			"true})\ns.on('connection', (socket, clients) => {\n})\nmodule.exports = async () => 1", 0},
		{"node", "f", "module.exports = (context, callback) => {\n  callback(200, 'hello')\n}", 0},
		{"node", "f", "module.exports = (context, callback) => {\n  const ws = other();\n  ws.on('message', callback)\n}", 0},
		{"node", "f.main", "exports.chat = (ws, clients) => {}\nexports.main = async () => 1", 0},
		{"node", "f", "exports.chat = (ws, clients) => {}\nmodule.exports = async () => 1", 0},
		{"python", "f.main", "TEXT = \"\"\"\ndef main(ws, clients):\n\"\"\"\ndef main():\n    return TEXT", 0},
		{"python", "f.main", "def helper(ws, clients):\n    pass\ndef main():\n    pass", 0},
		{"python", "f.main", "def main(event, context):\n    return 1", 0},
		{"node", "f", "const text = `${`\nmodule.exports = (ws, clients) => {}\n`}\nmodule.exports = (ws, clients) => " +
			"{}\n`\nmodule.exports = async () => text", 0},
		{"node", "f", "module.exports = async (req, res) => { }\n// never req.on('message')", 0},
		{"node", "f",
			"module.exports = async function (context, callback) {}\nfunction watch(context) { context.on('message', x) }", 0},
		{"node", "f", "module.exports=async(e,t)=>{t(200)};function n(e){e.onmessage=1}", 0},
		{"python", "f.main", "def main(queue, event):\n    return 1\ndef other(queue):\n    return queue.receive()", 0},
		{"binary", "f", "module.exports = async function(ws, clients) {\n}", 0},
	} {
		env, err := environment.Of(landfall.Environment{Name: test.language})
		if err != nil {
			t.Fatal(err)
		}
		if got := env.Socket([]byte(test.source), test.entry); got != test.line {
			t.Errorf("%s, %s: got line %d, want %d, of\n%s", test.language, test.entry, got, test.line, test.source)
		}
	}
}

// A source is read once, whatever is in it: none of these ends where each of its lines is a reason to read the rest
// again.
func TestSocketOfHardSources(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, test := range []struct{ language, entry, line, later string }{
		{"python", "f.main", "\\\"\"\"\n", ""},
		{"python", "f.main", "def main(ws", ""},
		{"node", "f", "/*\"\"", ""},
		{"node", "f", "=/[", ""},
		{"node", "f", "`${", ""},
		{"node", "f.a", "exports.a=b\n", ""},
		{"node", "f.a", "exports.a=b\n", "var b=\n"},
		{"node", "f.a", "module.exports={a,", ""},
		{"node", "f." + strings.Repeat("a", size/4), "a", ""},
		{"node", "f.a", "exports.a=", strings.Repeat("b", size/4) + "\nvar "},
	} {
		env, err := environment.Of(landfall.Environment{Name: test.language})
		if err != nil {
			t.Fatal(err)
		}
		source := strings.Repeat(test.line, size/len(test.line))
		if test.later != "" {
			source = source[:size/2] + "\n" + strings.Repeat(test.later, size/2/len(test.later))
		}
		if line := env.Socket([]byte(source), test.entry); line != 0 {
			t.Errorf("%.20q takes a WebSocket in line %d", source, line)
		}
		env.NeedsFastAPI(nil, []byte(source), test.entry)
	}
}
