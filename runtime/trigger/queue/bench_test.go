package queue_test

import (
	"fmt"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger/queue"
	"landfall.dev/landfall/test/testkit"
)

// A message is stored on the disk, by one publisher and by sixteen.
func BenchmarkPublish(b *testing.B) {
	for _, publishers := range []int{1, 16} {
		b.Run(fmt.Sprint(publishers), func(b *testing.B) {
			broker := room(b)
			b.SetParallelism(publishers)
			b.ResetTimer()
			if publishers == 1 {
				for b.Loop() {
					publish(b, broker, shop(), "orders", "a message")
				}
				return
			}
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := broker.Publish(b.Context(), shop(),
						landfall.Message{Topic: "orders", Data: []byte("a message")}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// Messages are taken, given to a function that does nothing, and acknowledged.
func BenchmarkDeliver(b *testing.B) {
	broker := room(b)
	for i := range b.N {
		publish(b, broker, shop(), "orders", fmt.Sprint(i))
	}
	b.ResetTimer()
	r := &records{}
	listen(b, broker, r, echo, on(shop(), "bill", "orders", func(t *registry.Trigger) { t.Resources.Concurrency = 16 }))
	testkit.Eventually(b, "all are through", func() bool { return r.count() == b.N })
}

// room is a broker with room for what a benchmark stores.
func room(b *testing.B) *queue.Broker {
	b.Helper()
	broker := embedded(b, b.TempDir())()
	broker.Bytes = 1 << 30
	return broker
}
