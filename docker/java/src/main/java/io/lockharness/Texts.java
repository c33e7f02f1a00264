package io.lockharness;

/** Formats an error and its cause as one short line. */
final class Texts {
    private static final int LENGTH = 200;

    private Texts() {}

    static String of(Throwable error) {
        String text = line(error);
        if (error.getCause() != null) {
            text += ": " + line(error.getCause());
        }
        return text.length() <= LENGTH ? text : text.substring(0, LENGTH) + "...";
    }

    private static String line(Throwable error) {
        String message = String.valueOf(error.getMessage()).lines().findFirst().orElse("");
        return error.getClass().getSimpleName() + ": " + message;
    }
}
