package handlers

import (
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"

	"comanda/handlers/order"
)

// openAPI describes every address that a program may use, in OpenAPI 3.0.3. It is kept by hand, and TestOpenAPIRoutes,
// TestOpenAPIAnswers and every other request of the tests hold it against the running server.
//
//go:embed openapi.json
var openAPI []byte

// getOpenAPI is GET /openapi.json.
func (s *Server) getOpenAPI(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/json", openAPI)
}

// getOrderSchema is GET /schemas/order.json: what an order's body must look like, as a JSON Schema.
func (s *Server) getOrderSchema(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/schema+json", order.Schema)
}
