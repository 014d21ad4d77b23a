// Handles the messages of the inbox "payments", each exactly once, until SIGTERM: handle URL
//
// Needs examples/shop.sql. Start as many as you like.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Message has the columns of claim_inbox() that this program needs.
type Message struct {
	ID      string
	Type    string
	Payload []byte
	Token   string
}

type Payment struct {
	Order  int64 `json:"order"`
	Amount int64 `json:"amount"`
}

// A message that can never be handled.
type reject struct{ why string }

func (r reject) Error() string { return r.why }

// Do the work, in the transaction that is open.
func handle(ctx context.Context, tx pgx.Tx, message Message) error {
	var payment Payment
	if message.Type != "payment.received" {
		return reject{"what is a " + message.Type + "?"}
	}
	if err := json.Unmarshal(message.Payload, &payment); err != nil {
		return reject{err.Error()}
	}
	paid, err := tx.Exec(ctx, "update orders set paid = true where id = $1 and total <= $2", payment.Order, payment.Amount)
	if err != nil {
		return err
	}
	if paid.RowsAffected() == 0 {
		return errors.New("no such order yet, or not enough") // comes again later
	}
	_, err = tx.Exec(ctx, "select baton.publish('order_events', 'order.paid', $1::jsonb, 'order', $2::bigint)",
		payment, payment.Order)
	return err
}

func process(ctx context.Context, db *pgx.Conn, message Message) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { // the work and the note that it is done: both, or neither
		if err := handle(ctx, tx, message); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "select baton.complete('payments', $1::text, $2::uuid)", message.ID, message.Token)
		return err
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "BT001" {
		return nil // the lease is lost: somebody else has the message
	}
	if err == nil || db.IsClosed() {
		return err
	}
	var never reject
	_, err = db.Exec(ctx, "select baton.fail('payments', $1::text, $2, $3, $4::uuid)",
		message.ID, err.Error(), errors.As(err, &never), message.Token)
	return err
}

func claim(ctx context.Context, db *pgx.Conn, worker string) ([]Message, error) {
	rows, err := db.Query(ctx,
		"select event_id, event_type, payload, lease_token::text from baton.claim_inbox('payments', $1, 20, 30)", worker)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Message])
}

func main() {
	stopping, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx := context.Background() // a signal ends the loop, not the work on a message
	db, err := pgx.Connect(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close(ctx)
	host, _ := os.Hostname()
	worker := fmt.Sprintf("%s-%d", host, os.Getpid())
	for stopping.Err() == nil {
		messages, err := claim(ctx, db, worker)
		if err != nil {
			log.Fatal(err)
		}
		for _, message := range messages {
			if err := process(ctx, db, message); err != nil {
				log.Fatal(err)
			}
		}
		if len(messages) == 0 {
			select {
			case <-stopping.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
}
