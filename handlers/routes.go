package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"comanda/handlers/door"
	"comanda/store"
)

// routes is the whole face of the server, each address with its door. What is not here is 404.
func (s *Server) routes() []door.Route {
	look := func(path string, h echo.HandlerFunc) door.Route {
		return door.Route{Method: http.MethodGet, Path: path, Door: door.View, Handler: h}
	}
	act := func(method, path string, h echo.HandlerFunc) door.Route {
		return door.Route{Method: method, Path: path, Door: door.Operate, Handler: h}
	}
	all := append(s.webhookRoutes(),
		door.Route{Method: http.MethodGet, Path: "/healthz", Door: door.Open, Handler: s.getHealth},
		door.Route{Method: http.MethodGet, Path: "/readyz", Door: door.Open, Handler: s.getReady},

		look("/openapi.json", s.getOpenAPI),
		look("/schemas/order.json", s.getOrderSchema),

		look("/api/orders", s.listOrders),
		look("/api/orders/:id", s.getOrder),
		look("/api/tickets", s.listTickets),
		look("/api/tickets/:id", s.getTicket),
		look("/api/ledger", s.listLedger),
		look("/api/effects", s.listEffects),
		look("/api/graph", s.getGraph),
		look("/api/stats", s.getStats),
		look("/api/targets", s.listTargets),
		look("/api/customers/:id/credit", s.getCredit),

		act(http.MethodPut, "/api/customers/:id/credit", s.putCredit),
		act(http.MethodPost, "/api/targets/:id/pause", s.pauseTarget),
		act(http.MethodPost, "/api/targets/:id/resume", s.resumeTarget),
		act(http.MethodPost, "/api/relay/run", s.runRelay),
		act(http.MethodPost, "/api/relay/pause", s.pauseRelay),
		act(http.MethodPost, "/api/relay/resume", s.resumeRelay),
	)
	for _, do := range []string{store.ActRetry, store.ActDiscard, store.ActResolve} {
		all = append(all, act(http.MethodPost, "/api/tickets/"+do, s.actOnMany(do)), act(http.MethodPost, "/api/tickets/:id/"+do, s.actOn(do)))
	}
	if s.opt.Metrics != nil {
		all = append(all, look("/metrics", echo.WrapHandler(s.opt.Metrics)))
	}
	if s.opt.Console != nil {
		all = append(all, s.opt.Console.Routes(s.gate, s.notReady)...)
	}
	return all
}

// mount puts the routes up. echo lets an id that ends a route run over slashes; with something after it the id ends
// at one.
func (s *Server) mount() {
	s.gate.Mount(s.echo, s.routes())
	s.gate.Mount(s.webhooks, s.webhookRoutes())
	for _, below := range []string{"/api/orders/:id/*", "/api/tickets/:id/*", "/orders/:id/*", "/tickets/:id/*", "/targets/:id/*"} {
		s.echo.RouteNotFound(below, echo.NotFoundHandler)
	}
}

// webhookRoutes are the addresses of the senders; the webhook address has no others.
func (s *Server) webhookRoutes() (all []door.Route) {
	for _, g := range s.intakes {
		all = append(all, door.Route{Method: http.MethodPost, Path: g.path(), Door: door.Webhook, Handler: s.postOrder(g)})
	}
	return all
}
