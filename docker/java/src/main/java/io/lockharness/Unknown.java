package io.lockharness;

/** It is unknown whether the operation happened: the answer is {@code info}. */
final class Unknown extends Exception {
    private static final long serialVersionUID = 1;

    Unknown(String why) {
        super(why);
    }

    Unknown(Throwable why) {
        super(Texts.of(why), why);
    }
}
