package report

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Point is one measurement in a chart.
type Point struct{ X, Y float64 }

// A Tick is a number on an axis.
type Tick struct {
	At    float64
	Label string
}

// A Chart shows lines on logarithmic axes, since ratios are what matters.
type Chart struct {
	Title, XLabel, YLabel string
	XTicks                []Tick // nil: decades
	Order                 []string
	Lines                 map[string][]Point
}

// colors can also be told apart by those who see no red or no green; widths of
// lines follow the order too.
var colors = []color.RGBA{{0, 114, 178, 255}, {0, 158, 115, 255}, {213, 94, 0, 255}, {204, 121, 167, 255}, {130, 130, 130, 255}}

var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}}

// Save writes the chart; the ending of the path is the format.
func (c Chart) Save(path string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.XLabel, c.YLabel
	p.BackgroundColor = color.White // pages may be dark
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.TickerFunc(steps)
	}
	if c.XTicks != nil {
		var ticks []plot.Tick
		for _, t := range c.XTicks {
			ticks = append(ticks, plot.Tick{Value: t.At, Label: t.Label})
		}
		p.X.Tick.Marker = plot.ConstantTicks(ticks)
	}
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left = true, true
	for i, name := range c.Order {
		if len(c.Lines[name]) == 0 {
			continue
		}
		if err := c.add(p, name, i%len(colors)); err != nil {
			return err
		}
	}
	return p.Save(18*vg.Centimeter, 11*vg.Centimeter, path)
}

func (c Chart) add(p *plot.Plot, name string, style int) error {
	var points plotter.XYs
	for _, pt := range c.Lines[name] {
		points = append(points, plotter.XY{X: pt.X, Y: pt.Y})
	}
	slices.SortFunc(points, func(a, b plotter.XY) int { return int(math.Copysign(1, a.X-b.X)) })
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, dots.Color, dots.Shape = colors[style], colors[style], shapes[style]
	line.Width = vg.Points(1.5)
	p.Add(line, dots)
	p.Legend.Add(name, line, dots)
	return nil
}

// steps marks 1, 2 and 5 of every decade.
func steps(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			if v := digit * decade; v >= low*0.999 && v <= high*1.001 {
				ticks = append(ticks, plot.Tick{Value: v, Label: short(v)})
			}
		}
	}
	return ticks
}
