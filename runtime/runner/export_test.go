package runner

// FrameEnd returns the place after the first JSON object of a stream that arrives in pieces, or -1, and false when
// something is before it.
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

// PartBehind returns the part that a process reads of what was read already, when it has room for less than that.
func PartBehind(rest []byte) ([]byte, error) {
	p := &process{exchange: exchange{answer: make([]byte, 0, usual), rest: rest}}
	err := p.readPart()
	return p.answer, err
}
