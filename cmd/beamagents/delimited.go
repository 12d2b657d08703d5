package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxFrameBytes bounds one message: 1 GiB.
const maxFrameBytes = 1 << 30

// frameReader reads messages from a stream: delimited, each behind its length as a
// varint, or one that is the whole input, an empty one too.
type frameReader struct {
	r         *bufio.Reader
	delimited bool
	limit     int64 // of one message, in bytes
	at        int64 // bytes read
	buf       bytes.Buffer
	done      bool
}

func newFrameReader(r io.Reader, delimited bool) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 1<<16), delimited: delimited, limit: maxFrameBytes}
}

// A place is that of a message in the input: its number, from 1, and the offset of its
// first byte.
type place struct {
	number int
	offset int64
}

// at begins the report of a fault at a byte of the message.
func (p place) at(b int) string {
	return fmt.Sprintf("message %d at byte %d", p.number, p.offset+int64(b))
}

// eachFrame calls f for each message of the input until it fails.
func eachFrame(in io.Reader, delimited bool, f func(p place, frame []byte) error) error {
	frames := newFrameReader(in, delimited)
	for number := 1; ; number++ {
		frame, offset, err := frames.next()
		p := place{number, offset}
		var bad *dataError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad): // nobody knows where the next one begins
			return &dataError{fmt.Errorf("%s: %w", p.at(0), err)}
		case err != nil:
			return err
		}
		if err := f(p, frame); err != nil {
			return err
		}
	}
}

// next returns a message and the offset of its first byte in the input. The bytes are
// valid until the next call. The error is io.EOF after the last message, a *dataError
// where the framing is at fault, at that offset, else that of the input.
func (f *frameReader) next() (frame []byte, offset int64, err error) {
	if f.done {
		return nil, f.at, io.EOF
	}
	if !f.delimited {
		f.done = true
		return f.read(f.limit+1, false)
	}
	from := f.at
	size, err := binary.ReadUvarint(f)
	switch {
	case errors.Is(err, io.EOF):
		return nil, f.at, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, from, &dataError{errors.New("the length of a message is cut short")}
	case err != nil && f.at-from == binary.MaxVarintLen64: // the only other one that is not of the input
		return nil, from, &dataError{errors.New("the length of a message is not a varint")}
	case err != nil:
		return nil, from, err
	case size > uint64(f.limit):
		return nil, from, &dataError{fmt.Errorf("a message of %d bytes, the limit is %d", size, f.limit)}
	}
	return f.read(int64(size), true)
}

// read returns up to size bytes. It makes room as they come, not for what a length
// claims.
func (f *frameReader) read(size int64, whole bool) (frame []byte, offset int64, err error) {
	offset = f.at
	f.buf.Reset()
	n, err := io.Copy(&f.buf, io.LimitReader(f.r, size))
	f.at += n
	switch {
	case err != nil:
		return nil, offset, err
	case whole && n < size:
		return nil, offset, &dataError{fmt.Errorf("a message of %d bytes is cut short after %d", size, n)}
	case n > f.limit:
		return nil, offset, &dataError{fmt.Errorf("a message of more than %d bytes", f.limit)}
	}
	return f.buf.Bytes(), offset, nil
}

// ReadByte implements io.ByteReader for the length of a message.
func (f *frameReader) ReadByte() (byte, error) {
	b, err := f.r.ReadByte()
	if err == nil {
		f.at++
	}
	return b, err
}

// writeFrame writes a message, behind its length if delimited.
func writeFrame(w io.Writer, b []byte, delimited bool) error {
	if delimited {
		if _, err := w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
			return err
		}
	}
	_, err := w.Write(b)
	return err
}
