package console

import "comanda/store"

// chart is the last hour as columns, and as a table for who can't see them.
type chart struct {
	Columns []column
	Most    int64
	Empty   bool
}

// column is a span of time: orders decided and effects carried out, and how they are drawn, in units of the viewBox
// that the template has.
type column struct {
	From    int64 // Unix milliseconds
	Orders  int64
	Effects int64

	X, OrdersY, OrdersHeight, EffectsY, EffectsHeight int64
}

// The picture: columns of pitch width, high at the most.
const (
	chartHigh  = 80
	chartPitch = 40
)

func newChart(buckets []store.Bucket, span int64) chart {
	c := chart{Empty: true}
	for _, b := range buckets {
		c.Most = max(c.Most, b.Orders, b.Effects)
	}
	height := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		return max(2, n*chartHigh/c.Most)
	}
	for i, b := range buckets {
		o, e := height(b.Orders), height(b.Effects)
		c.Columns = append(c.Columns, column{b.From, b.Orders, b.Effects, int64(i) * chartPitch, chartHigh - o, o, chartHigh - e, e})
		c.Empty = c.Empty && o+e == 0
	}
	return c
}
