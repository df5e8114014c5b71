// Package queue is the event source for messages: it keeps the messages of apps in streams of JetStream, in the process
// or at a NATS server elsewhere, and fires the triggers of live releases for them.
//
// # Where messages lie
//
// Each app has a stream of its own, made for its first message or trigger, of the subjects NAMESPACE.APP.TOPIC. What an
// app writes and a trigger hears is named by the topic alone, so no app can name what is another's. Only an
// administrator grants an app subjects elsewhere.
//
// A stream is bounded in bytes and in age. When it is full, what all triggers are done with is removed, and else the
// message is refused: nothing that waits is removed for it.
//
// # A message's way
//
//	stored ──▶ taken ──▶ filtered out ──────────────────────────────▶ acknowledged
//	            ▲ │
//	            │ └──▶ given to the function ──▶ it answered ─▶ answer stored ─▶ recorded ─▶ acknowledged
//	            │           │      │
//	            │           │      └──▶ it failed ─▶ recorded ─▶ too often: stored as a dead letter ─▶ acknowledged
//	            └───────────┴─────────────────────────┘ (after a while)
//
// A trigger takes a message only when its function may have one call more, so none waits in memory. A busy function is
// no failure: the message goes back and comes again. Between the answer and the acknowledgement the outcome is recorded
// in the database, because JetStream acknowledges before it writes: a message that comes again after that is known to
// be done. A crash before it makes the function run again, with the same event: at least once.
//
// Which release runs is decided when a message is taken: the one that is live then. The position of a trigger belongs
// to its name, so that it survives every move of live.
package queue
