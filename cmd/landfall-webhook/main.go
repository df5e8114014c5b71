// Command landfall-webhook takes webhooks: landfall with the role webhook.
package main

import (
	"os"

	"landfall.dev/landfall/cmd/role"
)

func main() { os.Exit(role.Main("webhook")) }
