package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"comanda/store"
)

// routes is the whole face of the server. What is not here is 404.
func (s *Server) routes() {
	s.webhookRoutes(s.echo)

	s.get("/healthz", s.getHealth)
	s.get("/readyz", s.getReady)
	if s.opt.Metrics != nil {
		s.get("/metrics", echo.WrapHandler(s.opt.Metrics))
	}

	s.get("/openapi.json", s.getOpenAPI)
	s.get("/schemas/order.json", s.getOrderSchema)

	s.get("/api/orders", s.listOrders)
	s.get("/api/orders/:id", s.getOrder)
	s.get("/api/tickets", s.listTickets)
	s.get("/api/tickets/:id", s.getTicket)
	s.get("/api/ledger", s.listLedger)
	s.get("/api/effects", s.listEffects)
	s.get("/api/graph", s.getGraph)
	s.get("/api/stats", s.getStats)

	for _, do := range []string{store.ActRetry, store.ActDiscard, store.ActResolve} {
		s.echo.POST("/api/tickets/"+do, s.actOnMany(do))
		s.echo.POST("/api/tickets/:id/"+do, s.actOn(do))
	}
	s.get("/api/targets", s.listTargets)
	s.echo.POST("/api/targets/:id/pause", s.pauseTarget)
	s.echo.POST("/api/targets/:id/resume", s.resumeTarget)

	s.echo.POST("/api/relay/run", s.runRelay)
	s.echo.POST("/api/relay/pause", s.pauseRelay)
	s.echo.POST("/api/relay/resume", s.resumeRelay)

	s.get("/api/customers/:id/credit", s.getCredit)
	s.echo.PUT("/api/customers/:id/credit", s.putCredit)

	if s.opt.Console != nil {
		s.opt.Console.Routes(s.echo, s.notReady)
	}

	// echo lets an id that ends a route run over slashes; with something after it the id ends at one.
	for _, below := range []string{"/api/orders/:id/*", "/api/tickets/:id/*", "/orders/:id/*", "/tickets/:id/*", "/targets/:id/*"} {
		s.echo.RouteNotFound(below, echo.NotFoundHandler)
	}
}

// webhookRoutes are the addresses of the senders; the webhook address has no others.
func (s *Server) webhookRoutes(e *echo.Echo) {
	for _, g := range s.intakes {
		e.POST(g.path(), s.postOrder(g))
	}
}

// get answers HEAD like GET, as monitors expect; net/http leaves the body out.
func (s *Server) get(path string, h echo.HandlerFunc) {
	s.echo.Match([]string{http.MethodGet, http.MethodHead}, path, h)
}
