package landfall

import (
	"strings"
	"time"
)

// MaxTopic is how long the name of a topic may be.
const MaxTopic = 200

// CheckTopic returns an Invalid error unless the text can name the topic of a message: words of letters, digits, "-"
// and "_" with dots between.
func CheckTopic(topic string) error { return checkTopic(topic, false) }

// CheckTopicPattern returns an Invalid error unless the text can name topics: "*" may stand for any one word, and ">"
// at the end for one or more.
func CheckTopicPattern(topic string) error { return checkTopic(topic, true) }

func checkTopic(topic string, pattern bool) error {
	wrong := func(format string, args ...any) error {
		return Errorf("topic", Invalid, format, args...)
	}
	if topic == "" || len(topic) > MaxTopic {
		return wrong("a topic has 1 to %d characters", MaxTopic)
	}
	words := strings.Split(topic, ".")
	for i, word := range words {
		switch {
		case word == "":
			return wrong("the topic %q has an empty word; right would be words with dots between, such as orders.new", topic)
		case pattern && (word == "*" || word == ">" && i == len(words)-1):
		case strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "":
			message := "a word of a topic has letters, digits, - and _"
			if pattern {
				message += ", or is * (one word), or > as the last (one or more)"
			}
			return wrong("the topic %q has the word %q; %s", topic, word, message)
		}
	}
	return nil
}

// TopicCovers reports whether outer matches every topic that inner matches. Both may be patterns.
func TopicCovers(outer, inner string) bool {
	for {
		o, restOuter, moreOuter := strings.Cut(outer, ".")
		i, restInner, moreInner := strings.Cut(inner, ".")
		switch {
		case o == ">":
			return true
		case i == ">" || o != "*" && o != i:
			return false
		case !moreOuter || !moreInner:
			return moreOuter == moreInner
		}
		outer, inner = restOuter, restInner
	}
}

// TopicsOverlap reports whether there is a topic that both patterns match.
func TopicsOverlap(a, b string) bool {
	for {
		wordA, restA, moreA := strings.Cut(a, ".")
		wordB, restB, moreB := strings.Cut(b, ".")
		switch {
		case wordA == ">" || wordB == ">":
			return true
		case wordA != "*" && wordB != "*" && wordA != wordB:
			return false
		case !moreA || !moreB:
			return moreA == moreB
		}
		a, b = restA, restB
	}
}

// Message is one message of an app's queue.
type Message struct {
	Topic     string
	Sequence  uint64    // of the queue: ascending, with gaps; 0: not stored yet
	ID        string    // identifies a repeated message; may be empty
	Time      time.Time // when it was stored
	Header    map[string][]string
	Data      []byte
	Duplicate bool // the message with that Sequence was stored before
}
