// Command landfall-runner is what runs functions, and nothing else: landfall with the role runner.
package main

import (
	"os"

	"landfall.dev/landfall/cmd/role"
)

func main() { os.Exit(role.Main("runner")) }
