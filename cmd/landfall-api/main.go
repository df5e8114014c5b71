// Command landfall-api is the REST API, the pages and the built-in git remote: landfall with the role api.
package main

import (
	"os"

	"landfall.dev/landfall/cmd/role"
)

func main() { os.Exit(role.Main("api")) }
