// Sends a message, or takes one.
//
//	example listen BIND
//	example send ID@HOST:PORT TEXT
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"exonet"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch {
	case len(os.Args) == 3 && os.Args[1] == "listen":
		listen(ctx, os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "send":
		send(ctx, os.Args[2], os.Args[3])
	default:
		log.Fatal("usage: example listen BIND | example send ID@HOST:PORT TEXT")
	}
}

func listen(ctx context.Context, bind string) {
	node, err := exonet.Open(exonet.Options{Bind: bind, Allow: "anyone"})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close(5 * time.Second)
	fmt.Println(node.Address())
	delivery, err := node.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s\n", delivery.From, delivery.Body)
	if err := delivery.Ack(0); err != nil {
		log.Fatal(err)
	}
}

func send(ctx context.Context, peer, text string) {
	node, err := exonet.Open(exonet.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close(5 * time.Second)
	receipt, err := node.Send(peer, []byte(text), exonet.SendOptions{})
	if err != nil {
		log.Fatal(err)
	}
	settled, err := receipt.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(settled.Outcome, settled.ID)
}
