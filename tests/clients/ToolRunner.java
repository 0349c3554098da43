import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs programs of Apache's one after another, because a JVM takes longer to start than most of them run. A request is
 * two texts: a class and its arguments, with a zero byte between two of them, and what the program reads. The answer is the
 * exit code and two texts, which the program wrote to its output and to its errors. A text is bytes after their length; a
 * number has four bytes.
 */
public class ToolRunner {
    /** Unwinds a thread that has called Exit.exit. */
    @SuppressWarnings("serial")
    private static final class Exited extends Error {
        Exited() {
            super("exited", null, false, false);
        }
    }

    /** Keeps what a program writes until it ends. */
    private static final class Captured extends OutputStream {
        private final ByteArrayOutputStream written = new ByteArrayOutputStream();
        private boolean closed;

        @Override
        public synchronized void write(int octet) {
            if (!closed) {
                written.write(octet);
            }
        }

        @Override
        public synchronized void write(byte[] bytes, int from, int count) {
            if (!closed) {
                written.write(bytes, from, count);
            }
        }

        synchronized void setClosed(boolean closed) {
            this.closed = closed;
        }

        synchronized byte[] take() {
            byte[] taken = written.toByteArray();
            written.reset();
            return taken;
        }
    }

    /** A run of one program, which ends with its main method or with a call of Exit.exit. */
    private static final class Run implements Runnable {
        private final CompletableFuture<Integer> end = new CompletableFuture<>();
        private final Thread main = new Thread(this, "main");
        private final String program;
        private final String[] args;
        private Integer decided;

        Run(String program, String[] args) {
            this.program = program;
            this.args = args;
            main.setDaemon(true);
        }

        int code() throws Exception {
            main.start();
            return end.get();
        }

        @Override
        public void run() {
            int code = 0;
            try {
                Class.forName(program).getMethod("main", String[].class).invoke(null, (Object) args);
            } catch (InvocationTargetException e) {
                code = 1;
                show(main, e.getCause());
            } catch (Throwable e) {
                code = 1;
                show(main, e);
            }
            end.complete(decide(code));
        }

        /** The first code is that of the program. Nothing that is written later is its output. */
        private synchronized int decide(int code) {
            if (decided == null) {
                System.out.flush();
                setClosed(true);
                decided = code;
            }
            return decided;
        }

        void exit(int code) {
            int first = decide(code);
            if (Thread.currentThread() != main) {
                end.complete(first);
            }
            throw new Exited();
        }
    }

    private static final Captured OUT = new Captured();
    private static final Captured ERR = new Captured();
    private static final List<Runnable> HOOKS = new CopyOnWriteArrayList<>();
    private static Run running;

    public static void main(String[] args) throws Exception {
        DataInputStream requests = new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in)));
        DataOutputStream answers = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> running.exit(code));
        Exit.setHaltProcedure((code, message) -> running.exit(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        Thread.setDefaultUncaughtExceptionHandler(ToolRunner::show);
        byte[] words;
        while ((words = read(requests)) != null) {
            String[] program = new String(words, StandardCharsets.UTF_8).split("\0", -1);
            System.setIn(new ByteArrayInputStream(read(requests)));
            int code = run(program[0], Arrays.copyOfRange(program, 1, program.length));
            ByteArrayOutputStream answer = new ByteArrayOutputStream();
            DataOutputStream parts = new DataOutputStream(answer);
            parts.writeInt(code);
            for (Captured each : List.of(OUT, ERR)) {
                byte[] taken = each.take();
                parts.writeInt(taken.length);
                parts.write(taken);
            }
            answers.write(answer.toByteArray());
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** The next text, or null at the end. */
    private static byte[] read(DataInputStream from) throws IOException {
        try {
            return from.readNBytes(from.readInt());
        } catch (EOFException e) {
            return null;
        }
    }

    /** The exit code of one program. Then its hooks have run, as they run when a JVM ends. */
    private static int run(String program, String[] args) throws Exception {
        HOOKS.clear();
        setClosed(false);
        running = new Run(program, args);
        int code = running.code();
        setClosed(false);
        HOOKS.forEach(Runnable::run);
        setClosed(true);
        return code;
    }

    private static void setClosed(boolean closed) {
        OUT.setClosed(closed);
        ERR.setClosed(closed);
    }

    private static void show(Thread thread, Throwable error) {
        if (!(error instanceof Exited)) {
            System.err.print("Exception in thread \"" + thread.getName() + "\" ");
            error.printStackTrace();
        }
    }
}
