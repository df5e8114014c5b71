package pipeline

import "landfall.dev/landfall"

// ReasonOf returns the line of a failed build's output that becomes its reason.
func ReasonOf(lines []string) string {
	var c errorFinder
	for _, line := range lines {
		c.add(line)
	}
	return c.line
}

// CollectOutputs lists what a build made.
func CollectOutputs(dir string, made ...string) ([]landfall.File, error) {
	return collectOutputs(dir, "", buildJob{what: "it", outputs: made})
}
