package store

import (
	"context"
	"crypto/rand"
	"sync"

	"landfall.dev/landfall"
)

// leadership is what a process knows about being the leader, the one process that does what only one may do. Holding
// the lock makes it believe so. But a process that was paused, or was cut off when the database moved to another
// server, may believe it for too long. So the winner leaves a key, and each write that only the leader may make checks
// the key in its own transaction.
type leadership struct {
	exclusive bool // no other process can use the database while this one does

	mu   sync.Mutex
	key  string        // left when this process won; empty: it never won, or another one has won since
	lost chan struct{} // closed when another process is found to have won; nil while nobody waits for that
}

// These are the statements on the one row. When a process wins again and its key is still there, the key stays: nobody
// else has won meanwhile.
const (
	winLeader = `INSERT INTO owners (id, key) VALUES (1, $1)
		ON CONFLICT (id) DO UPDATE SET key = CASE WHEN owners.key = $2 THEN owners.key ELSE excluded.key END RETURNING key`
	selectLeader = `SELECT key FROM owners WHERE id = 1`
)

// Lead makes this process the leader until ctx ends. It calls leading once it leads, and again after it lost the
// connection, or after another process has led meanwhile. It returns Conflict when another process leads and goes on
// leading. Other processes may use the database meanwhile, but not lead: what one process does for all is done once.
func (db *DB) Lead(ctx context.Context, leading func()) error {
	return classify("store.Lead", db.engine.lead(ctx, &db.leadership, leading))
}

// Leader is this process for as long as no other one has won since DB.Leader returned it.
type Leader struct {
	db  *DB
	key string
}

// Leader returns this process as the leader, which Lead has made it. The leader of an SQLite file is the process that
// opened it. Unavailable when this process does not lead, or does not any more.
func (db *DB) Leader(ctx context.Context) (Leader, error) {
	const op landfall.Op = "store.Owner"
	if db.leadership.exclusive {
		key, err := db.leadFile(ctx)
		return Leader{db, key}, err
	}
	key := db.leadership.currentKey()
	if key == "" {
		return Leader{}, landfall.Errorf(op, landfall.Unavailable, "this process does not own the database now")
	}
	return Leader{db, key}, nil
}

// Update is DB.Update for writes that only the leader may make. It is a Conflict, and f is not called, when another
// process has won since.
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

// UpdateAsLeader is Update for writes that only the leader may make. It fails with Unavailable when this process does
// not lead, and with Conflict when another one has won meanwhile. The transaction itself checks that.
func (db *DB) UpdateAsLeader(ctx context.Context, f func(*Tx) error) error {
	o, err := db.Leader(ctx)
	if err != nil {
		return err
	}
	return o.Update(ctx, f)
}

// CheckLeader fails as UpdateAsLeader does when this process does not lead now. It only reads, so it can refuse early
// what UpdateAsLeader would refuse later.
func (db *DB) CheckLeader(ctx context.Context) error {
	o, err := db.Leader(ctx)
	if err != nil {
		return err
	}
	return db.checkLeader(ctx, o.key)
}

// checkLeader fails with Conflict unless the last winner left the key.
func (q queries) checkLeader(ctx context.Context, key string) error {
	const op landfall.Op = "store.checkOwner"
	last, err := one(ctx, q, op, scanValue[string], selectLeader)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return err
	}
	if last != key {
		return landfall.Errorf(op, landfall.Conflict,
			"another landfall process owns the database meanwhile: this one does nothing for all any more")
	}
	return nil
}

// leadFile returns the key of a database that no other process can use. The first process leaves the key and it stays,
// so a later start writes nothing.
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

// currentKey returns the key; empty when this process does not lead.
func (o *leadership) currentKey() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.key
}

// remember stores a key, and returns a channel that is closed when another process turns out to have won.
func (o *leadership) remember(key string) (lost <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.key, o.lost = key, make(chan struct{})
	return o.lost
}

// forget drops a key that is not valid any more; the empty one stands for whichever there is.
func (o *leadership) forget(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.exclusive || o.key == "" || (key != "" && key != o.key) {
		return
	}
	o.key = ""
	close(o.lost)
}
