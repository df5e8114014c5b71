package store

import (
	"context"
	"crypto/rand"
	"sync"

	"landfall.dev/landfall"
)

// leadership is what a process knows of being the one that does what one does for all. That it has a lock tells it so, but a
// process that was paused, or that was cut off when the database moved to another server, may believe it for longer than it is
// true. So who wins leaves a key, and each write that only the owner makes looks for it in its own transaction.
type leadership struct {
	exclusive bool // nobody else can have the database while this process does

	mu   sync.Mutex
	key  string        // what this process won with; empty: it did not, or another one has won meanwhile
	lost chan struct{} // closed when it is found out that another one has won; nil while nobody waits for that
}

// The statements on the one row. A key that is there still when its process wins again stays: nobody else has won meanwhile.
const (
	winLeader = `INSERT INTO owners (id, key) VALUES (1, $1)
		ON CONFLICT (id) DO UPDATE SET key = CASE WHEN owners.key = $2 THEN owners.key ELSE excluded.key END RETURNING key`
	selectLeader = `SELECT key FROM owners WHERE id = 1`
)

// Lead makes the database this process's until ctx ends: it calls owned once that is so, and again after a connection was lost, or
// after another process had it meanwhile. It returns a Conflict when another process has it and keeps it. Others may use the
// database meanwhile, but not own it: what one process does for all is done once.
func (db *DB) Lead(ctx context.Context, leading func()) error {
	return classify("store.Own", db.engine.lead(ctx, &db.leadership, leading))
}

// Leader is this process for as long as no other one has won the database since DB.Owner returned it.
type Leader struct {
	db  *DB
	key string
}

// Leader returns this process as the one that owns the database, which Own has made it; an SQLite file is owned by whoever opened
// it. Unavailable when it is not, or not any more.
func (db *DB) Leader(ctx context.Context) (Leader, error) {
	const op landfall.Op = "store.Owner"
	if db.leadership.exclusive {
		key, err := db.leadFile(ctx)
		return Leader{db, key}, err
	}
	key := db.leadership.currentKey()
	if key == "" {
		return Leader{}, &landfall.Error{Op: op, Kind: landfall.Unavailable, Message: "this process does not own the database now"}
	}
	return Leader{db, key}, nil
}

// Update is DB.Update for what only the owner writes. It is a Conflict, and f is not called, when another process has won since.
func (o Leader) Update(ctx context.Context, f func(*Tx) error) error {
	won := false
	err := o.db.Update(ctx, func(tx *Tx) error {
		err := tx.checkLeader(ctx, o.key)
		if won = landfall.Is(err, landfall.Conflict); err != nil {
			return err
		}
		return f(tx)
	})
	if won {
		o.db.leadership.forget(o.key)
	}
	return err
}

// UpdateAsLeader is Update for what only the owner of the database writes: it does nothing but fail, with Unavailable when this
// process is not the owner, and with a Conflict when another one has won meanwhile. That is found out in the transaction itself.
func (db *DB) UpdateAsLeader(ctx context.Context, f func(*Tx) error) error {
	o, err := db.Leader(ctx)
	if err != nil {
		return err
	}
	return o.Update(ctx, f)
}

// CheckLeader fails as UpdateAsLeader does when this process does not own the database at this moment. It only reads, so it is for
// refusing early what would be refused later.
func (db *DB) CheckLeader(ctx context.Context) error {
	o, err := db.Leader(ctx)
	if err != nil {
		return err
	}
	return db.checkLeader(ctx, o.key)
}

// checkLeader fails with a Conflict unless the key is that of the one that won last.
func (q queries) checkLeader(ctx context.Context, key string) error {
	const op landfall.Op = "store.checkOwner"
	last, err := one(ctx, q, op, scanValue[string], selectLeader)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	if last != key {
		return &landfall.Error{Op: op, Kind: landfall.Conflict,
			Message: "another landfall process owns the database meanwhile: this one does nothing for all any more"}
	}
	return nil
}

// leadFile returns the key of a database that nobody else can have. The first process leaves one, and it stays: a start writes nothing.
func (db *DB) leadFile(ctx context.Context) (key string, err error) {
	o := &db.leadership
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.key != "" {
		return o.key, nil
	}
	const op landfall.Op = "store.Owner"
	if key, err = one(ctx, db.queries, op, scanValue[string], selectLeader); landfall.Is(err, landfall.NotFound) {
		err = db.Update(ctx, func(tx *Tx) error {
			key, err = one(ctx, tx.queries, op, scanValue[string], winLeader, rand.Text(), "")
			return err
		})
	}
	if err == nil {
		o.key = key
	}
	return key, err
}

// currentKey returns the key; empty when this process is not the owner.
func (o *leadership) currentKey() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.key
}

// remember remembers a key, and returns what is closed when another process turns out to have won.
func (o *leadership) remember(key string) (lost <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.key, o.lost = key, make(chan struct{})
	return o.lost
}

// forget forgets a key that is not the owner's any more; the empty one stands for whichever there is.
func (o *leadership) forget(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.exclusive || o.key == "" || (key != "" && key != o.key) {
		return
	}
	o.key = ""
	close(o.lost)
}
