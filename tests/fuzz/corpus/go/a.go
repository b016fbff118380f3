package ropes

import "fmt"

// Winch pulls.
type Winch[T any] struct {
	Name string `json:"name"`
	parts map[string][]T
}

func (w *Winch[T]) Pull(by int) (out <-chan T, err error) {
	defer func() { fmt.Println(w.Name, by) }()
	select {
	case x := <-out:
		_ = x
	default:
	}
	return nil, nil
}
