package io.lockharness;

/** The operation is known not to have happened: the answer is {@code fail}. */
final class Refused extends Exception {
    private static final long serialVersionUID = 1;

    Refused(String why) {
        super(why);
    }

    Refused(Throwable why) {
        super(Texts.of(why), why);
    }
}
