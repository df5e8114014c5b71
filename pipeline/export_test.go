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

// ReasonFor returns the reason of a failed build from the line of its output, and from the lines about hosts that it did not reach.
func ReasonFor(line string, notReached ...string) string { return reasonOf(line, notReached) }

// CollectOutputs lists what a build made.
func CollectOutputs(dir string, made ...string) ([]landfall.File, error) {
	return collectOutputs(dir, "", buildJob{what: "it", outputs: made})
}

// CollectDeployed lists what the build of a package left at DEPLOY_PKG.
func CollectDeployed(dir string) ([]landfall.File, error) {
	return collectOutputs(dir, "", buildJob{what: "it", outputs: []string{deployName}, deploy: true})
}
