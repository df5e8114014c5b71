package machine

import (
	"os"
	"strconv"
	"testing"
)

// faultRoundsVariable says how often the experiments with faults are repeated; one round is a tenth of the full dose.
const faultRoundsVariable = "LANDFALL_FAULT_ROUNDS"

// Dose returns how many faults an experiment makes: a few, or so many in each round that was asked for.
func Dose(t testing.TB, few, inOneRound int) int {
	t.Helper()
	text := os.Getenv(faultRoundsVariable)
	if text == "" {
		return few
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("%s is %q; right would be a number", faultRoundsVariable, text)
	}
	return rounds * inOneRound
}
