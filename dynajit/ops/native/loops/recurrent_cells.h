/* The cells of one dtype and instruction set that `_recurrent.c` calls and recurrent_loops.h defines.
 *
 * Contract: a cell computes some rows (sequences) of one step. Elements of a row lie side by side;
 * how far rows are apart is counted in elements, and where nothing says so they lie side by side, too.
 */
#ifndef DJ_RECURRENT_CELLS_H
#define DJ_RECURRENT_CELLS_H
#include <stddef.h>
#include <stdint.h>

/* Some rows of a step. H is the number of features of a cell.
 *
 * Args:
 *     gates: what the input gives, rows of as many H as there are gates.
 *     product: what the hidden state gives, alike, product_row apart.
 *     bias: of the GRU's new gate, (H).
 *     cell: the LSTM's, (rows, H): before the step, and then after it.
 *     hidden: the state before a projection, (rows, H); the GRU reads the one before the step there.
 *     kept: for what backward reads instead of computing it again, rows of 4 H, kept_row apart: the
 *         LSTM's gates; the GRU's, and what its new one gets of the product.
 */
typedef struct {
    int64_t rows, size;
    const void *gates, *product, *bias;
    void *cell, *hidden, *kept;
    int64_t kept_row;
} Step;

/* The derivative of some rows of a step.
 *
 * Args:
 *     kept: what the forward step has kept, kept_row apart; else gates and the products are read.
 *     slopes: the products of the hidden state; becomes the slopes of the sums, slopes_row apart.
 *     after: the LSTM's cell, or a plain RNN's hidden state, after the step, after_row apart.
 *     before: the LSTM's cell, or the GRU's hidden state, before it, before_row apart.
 *     hidden: the gradient of the hidden state before a projection, (rows, H); of a GRU it becomes
 *         what reaches the state before without the product.
 *     cell: the gradient of the LSTM's cell, (rows, H): after the step, and then before it.
 *     sent: the GRU's slopes of what the product gave, (rows, 3 H).
 */
typedef struct {
    int64_t rows, size;
    const void *gates, *bias, *kept;
    void *slopes;
    int64_t kept_row, slopes_row;
    const void *after, *before;
    int64_t after_row, before_row;
    void *hidden, *cell, *sent;
} BackStep;

enum Mode { LSTM, GRU, RNN_TANH, RNN_RELU, MODES };

/* [mode][whether gates are kept]; NULL where a mode has none to keep. */
typedef struct {
    void (*forward[MODES][2])(const Step *);
    void (*backward[MODES][2])(const BackStep *);
    void (*add)(void *sum, const void *x, int64_t x_row, int64_t rows, int64_t size);
} Cells;

#endif
