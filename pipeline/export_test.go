package pipeline

// ReasonOf returns the line of a failed build's output that becomes its reason.
func ReasonOf(lines []string) string {
	var c errorFinder
	for _, line := range lines {
		c.add(line)
	}
	return c.line
}

// ReasonFor returns the reason of a failed build from the line of its output, and from the lines about hosts that it
// did not reach.
func ReasonFor(line string, notReached ...string) string { return reasonOf(line, notReached) }
