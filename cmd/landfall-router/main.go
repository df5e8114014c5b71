// Command landfall-router is what sends events to the best runner: landfall with the role router.
package main

import (
	"os"

	"landfall.dev/landfall/cmd/role"
)

func main() { os.Exit(role.Main("router")) }
