package wasm

import (
	"context"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// pollMost is how many things a module may wait for at once: of the server's memory each takes more than it takes of
// the module's.
const pollMost = 1024

// polls looks at every call of poll_oneoff before wazero does. One that waits for too much is made one that waits for
// nothing, to which the answer is EINVAL.
type polls struct{}

var (
	_ experimental.FunctionListenerFactory = polls{}
	_ experimental.FunctionListener        = polls{}
)

// NewFunctionListener implements experimental.FunctionListenerFactory.
func (polls) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	if def.ModuleName() != wasi_snapshot_preview1.ModuleName || def.Name() != "poll_oneoff" {
		return nil
	}
	return polls{}
}

// Before implements experimental.FunctionListener.
func (polls) Before(_ context.Context, _ api.Module, _ api.FunctionDefinition, params []uint64,
	_ experimental.StackIterator) {
	const count, bits = 2, 1<<32 - 1
	if len(params) > count && params[count]&bits > pollMost {
		params[count] = 0
	}
}

// After implements experimental.FunctionListener.
func (polls) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}

// Abort implements experimental.FunctionListener.
func (polls) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}
