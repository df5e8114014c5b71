// Command landfall-trigger is the trigger manager, with schedules and queues: landfall with the role trigger.
package main

import (
	"os"

	"landfall.dev/landfall/cmd/role"
)

func main() { os.Exit(role.Main("trigger")) }
