// Command pocketbase is PocketBase with one collection that anybody may add orders to, to be measured
// beside comanda. It is a module of its own, since it wants another SQLite than the rest.
//
//	pocketbase DIRECTORY NORMAL|FULL
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/pocketbase/dbx"
	"github.com/pocketbase/pocketbase"
	"github.com/pocketbase/pocketbase/core"
	"github.com/pocketbase/pocketbase/tools/types"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pocketbase DIRECTORY NORMAL|FULL")
		os.Exit(2)
	}
	dir, synchronous := os.Args[1], os.Args[2]
	os.Args = []string{os.Args[0], "serve", "--http=127.0.0.1:0"} // it reads them itself to see what it needs
	app := pocketbase.NewWithConfig(pocketbase.Config{
		DefaultDataDir: dir, HideStartBanner: true,
		DBConnect: func(path string) (*dbx.DB, error) { return connect(path, synchronous) },
	})
	app.OnServe().BindFunc(listen)
	if err := app.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "pocketbase:", err)
		os.Exit(1)
	}
}

// connect opens a file with PocketBase's own pragmas (core.DefaultDBConnect) but for synchronous, and
// reads that one back.
func connect(path, synchronous string) (*dbx.DB, error) {
	db, err := dbx.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=journal_size_limit(200000000)"+
		"&_pragma=synchronous("+synchronous+")&_pragma=foreign_keys(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-32000)")
	if err != nil {
		return nil, err
	}
	var got, mode string
	if err := db.NewQuery("PRAGMA synchronous").Row(&got); err != nil {
		return nil, err
	}
	if err := db.NewQuery("PRAGMA journal_mode").Row(&mode); err != nil {
		return nil, err
	}
	if want := map[string]string{"NORMAL": "1", "FULL": "2"}[synchronous]; got != want || mode != "wal" {
		return nil, fmt.Errorf("synchronous is %s instead of %s (%s), journal_mode %s", got, want, synchronous, mode)
	}
	return db, nil
}

// listen makes the collection and says where it listens.
func listen(e *core.ServeEvent) error {
	orders := core.NewBaseCollection("orders")
	orders.CreateRule = types.Pointer("")
	orders.Fields.Add(&core.TextField{Name: "key", Required: true}, &core.JSONField{Name: "body"})
	orders.AddIndex("orders_key", true, "key", "")
	if err := e.App.Save(orders); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e.Listener, e.InstallerFunc = l, nil // no superuser, no browser
	fmt.Printf("listening http://%s\n", l.Addr())
	return e.Next()
}
