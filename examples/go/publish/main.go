// Places an order and publishes the event, in one transaction: publish URL ORDER TOTAL
//
// Needs examples/shop.sql.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
)

type Order struct {
	Order int64 `json:"order"`
	Total int64 `json:"total"`
}

func placeOrder(ctx context.Context, db *pgx.Conn, order Order) (event int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { // the order and its event: both, or neither
		if _, err := tx.Exec(ctx, "insert into orders (id, total) values ($1, $2)", order.Order, order.Total); err != nil {
			return err
		}
		return tx.QueryRow(ctx,
			"select baton.publish('order_events', 'order.placed', $1::jsonb, 'order', $2::bigint)",
			order, order.Order).Scan(&event)
	})
	return event, err
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close(ctx)
	event, err := placeOrder(ctx, db, Order{number(os.Args[2]), number(os.Args[3])})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("event", event)
}
