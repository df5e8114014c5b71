// Command peer takes webhooks as people write that with gin: without looking at them, or with their signatures checked
// and a durable transaction for each.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
	_ "modernc.org/sqlite" // as Landfall has it
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	secret := flag.String("secret", "", "of all webhooks")
	database := flag.String("database", "", "path of the database; empty: nothing is checked or stored")
	flag.Parse()
	if err := serve(*listen, *secret, *database); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(listen, secret, database string) error {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	take := func(c *gin.Context) { c.Status(http.StatusAccepted) }
	if database != "" {
		db, err := sql.Open("sqlite", "file:"+database+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		h, err := newHooks(context.Background(), db, []byte(secret))
		if err != nil {
			return err
		}
		take = h.take
	}
	engine.POST("/webhooks/github/:hook", take)
	const patience = 10 * time.Second
	server := &http.Server{Addr: listen, Handler: engine, ReadHeaderTimeout: patience}
	return server.ListenAndServe()
}

type hooks struct {
	insert *sql.Stmt
	secret []byte
}

func newHooks(ctx context.Context, db *sql.DB, secret []byte) (*hooks, error) {
	_, err := db.ExecContext(ctx,
		`CREATE TABLE deliveries (hook TEXT, id TEXT, event TEXT, body BLOB, received INTEGER, PRIMARY KEY (hook, id))`)
	if err != nil {
		return nil, err
	}
	insert, err := db.PrepareContext(ctx, `INSERT INTO deliveries VALUES (?, ?, ?, ?, ?)`)
	return &hooks{insert, secret}, err
}

func (h *hooks) take(c *gin.Context) {
	const most = 25 << 20
	if c.Request.ContentLength < 0 || c.Request.ContentLength > most {
		c.Status(http.StatusRequestEntityTooLarge)
		return
	}
	body := make([]byte, c.Request.ContentLength)
	if _, err := io.ReadFull(c.Request.Body, body); err != nil {
		c.Status(http.StatusBadRequest)
		return
	}
	mac := hmac.New(sha256.New, h.secret)
	mac.Write(body)
	if !hmac.Equal([]byte("sha256="+hex.EncodeToString(mac.Sum(nil))), []byte(c.GetHeader("X-Hub-Signature-256"))) {
		c.Status(http.StatusUnauthorized)
		return
	}
	if err := h.store(c, body); err != nil {
		fmt.Fprintln(os.Stderr, err)
		c.Status(http.StatusServiceUnavailable)
		return
	}
	c.Status(http.StatusAccepted)
}

// store stores a delivery: a statement by itself is a transaction.
func (h *hooks) store(c *gin.Context, body []byte) error {
	_, err := h.insert.ExecContext(c, c.Param("hook"), c.GetHeader("X-Github-Delivery"), c.GetHeader("X-Github-Event"),
		body, time.Now().UnixMicro())
	return err
}
