// Command landfall-pipeline is a worker that takes commits to releases: landfall with the role pipeline.
package main

import (
	"os"

	"landfall.dev/landfall/cmd/role"
)

func main() { os.Exit(role.Main("pipeline")) }
