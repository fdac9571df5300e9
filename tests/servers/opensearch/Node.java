import java.util.concurrent.CountDownLatch;
import org.codelibs.opensearch.runner.OpenSearchRunner;

/** A node of OpenSearch until the process is ended: arguments are its folder and its port. */
public class Node {
    public static void main(String[] arguments) throws Exception {
        OpenSearchRunner runner = new OpenSearchRunner();
        runner.onBuild((number, settings) -> {
            settings.put("http.port", arguments[1]);
            settings.put("transport.port", "0");
            settings.put("network.host", "127.0.0.1");
            settings.put("discovery.type", "single-node");
        });
        runner.build(OpenSearchRunner.newConfigs().basePath(arguments[0]).numOfNode(1).clusterName("weigh"));
        runner.ensureYellow();
        new CountDownLatch(1).await();
    }
}
