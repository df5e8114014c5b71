// Command landfall-gateway is what serves releases: landfall with the role gateway.
package main

import (
	"os"

	"landfall.dev/landfall/cmd/role"
)

func main() { os.Exit(role.Main("gateway")) }
