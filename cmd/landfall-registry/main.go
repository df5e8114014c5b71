// Command landfall-registry is what says which functions there are: landfall with the role registry.
package main

import (
	"os"

	"landfall.dev/landfall/cmd/role"
)

func main() { os.Exit(role.Main("registry")) }
