import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints what Kafka's own clients do about each error code: its number, and RETRY, REFRESH or FAIL. */
public class ErrorKinds {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            if (error == Errors.NONE) continue;
            String kind = error.exception() instanceof InvalidMetadataException ? "REFRESH"
                    : error.exception() instanceof RetriableException ? "RETRY" : "FAIL";
            System.out.println(error.code() + " " + kind);
        }
    }
}
