package runner

// FrameEnd returns the place after the first JSON object of a stream that arrives in pieces, or -1, and false when something
// is before it.
func FrameEnd(pieces ...[]byte) (int, bool) {
	var f frame
	before := 0
	for _, p := range pieces {
		end, ok := f.find(p)
		if !ok {
			return -1, false
		}
		if end >= 0 {
			return before + end, true
		}
		before += len(p)
	}
	return -1, true
}
