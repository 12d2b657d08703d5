import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import com.google.protobuf.TextFormat;
import com.google.protobuf.UnknownFieldSet;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Writes the golden values with the protobuf runtime of Java: see parity.py beside it,
 * which does the same. Arguments: SCHEMA GOLDEN OUT.
 *
 * <p>Java sorts unknown fields by number and keeps no order between them.
 */
public final class Parity {
  private static final Pattern MESSAGE = Pattern.compile("# proto-message: ([A-Za-z0-9_.]+)");
  private static final Pattern UNKNOWN = Pattern.compile("# unknown(?: ([a-z0-9_.\\[\\]]+))?: ([0-9a-f]+)");
  private static final Pattern STEP = Pattern.compile("([a-z0-9_]+)(?:\\[([0-9]+)\\])?");

  public static void main(String[] args) throws Exception {
    Map<String, Descriptor> types = types(Path.of(args[0]));
    Path golden = Path.of(args[1]);
    Path out = Files.createDirectories(Path.of(args[2]));
    List<Path> texts;
    try (Stream<Path> files = Files.list(golden)) {
      texts = files.filter(f -> f.toString().endsWith(".txtpb")).sorted().toList();
    }
    int faults = 0;
    for (Path file : texts) {
      String name = file.getFileName().toString().replace(".txtpb", "");
      Message value = value(Files.readString(file), types);
      byte[] encoded = encode(value);
      Files.write(out.resolve(name + ".binpb"), encoded);
      Message read = DynamicMessage.parseFrom(value.getDescriptorForType(), Files.readAllBytes(golden.resolve(name + ".binpb")));
      if (!read.equals(value)) {
        faults++;
        System.out.println(name + ": its bytes have another value than its text");
      }
      if (!Arrays.equals(encode(read), encoded)) {
        faults++;
        System.out.println(name + ": its bytes, encoded again, are not the encoding of its text");
      }
    }
    System.out.println("java: " + texts.size() + " values, " + faults + " faults");
    if (faults > 0 || texts.isEmpty()) {
      System.exit(1);
    }
  }

  private static byte[] encode(Message m) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    CodedOutputStream out = CodedOutputStream.newInstance(bytes);
    out.useDeterministicSerialization();
    m.writeTo(out);
    out.flush();
    return bytes.toByteArray();
  }

  private static Map<String, Descriptor> types(Path schema) throws Exception {
    Map<String, Descriptor> types = new HashMap<>();
    Map<String, FileDescriptor> files = new HashMap<>(); // a file comes after its imports
    for (FileDescriptorProto file : FileDescriptorSet.parseFrom(Files.readAllBytes(schema)).getFileList()) {
      FileDescriptor[] imports = file.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new);
      files.put(file.getName(), FileDescriptor.buildFrom(file, imports));
      add(types, files.get(file.getName()).getMessageTypes());
    }
    return types;
  }

  private static void add(Map<String, Descriptor> types, List<Descriptor> messages) {
    for (Descriptor d : messages) {
      types.put(d.getFullName(), d);
      add(types, d.getNestedTypes());
    }
  }

  private static Message value(String text, Map<String, Descriptor> types) throws IOException {
    Matcher header = MESSAGE.matcher(text);
    if (!header.lookingAt()) {
      throw new IOException("no header");
    }
    DynamicMessage.Builder builder = DynamicMessage.newBuilder(types.get(header.group(1)));
    TextFormat.getParser().merge(text, builder);
    for (String line : text.lines().toList()) {
      if (!line.startsWith("# unknown")) {
        continue;
      }
      Matcher m = UNKNOWN.matcher(line);
      if (!m.matches()) {
        throw new IOException(line);
      }
      List<String> path = new ArrayList<>(m.group(1) == null ? List.of() : List.of(m.group(1).split("\\.")));
      addUnknown(builder, path, UnknownFieldSet.parseFrom(HexFormat.of().parseHex(m.group(2))));
    }
    return builder.build();
  }

  private static void addUnknown(Message.Builder builder, List<String> path, UnknownFieldSet fields) {
    if (path.isEmpty()) {
      builder.setUnknownFields(UnknownFieldSet.newBuilder(builder.getUnknownFields()).mergeFrom(fields).build());
      return;
    }
    Matcher step = STEP.matcher(path.get(0));
    if (!step.matches()) {
      throw new IllegalArgumentException(path.get(0));
    }
    FieldDescriptor field = builder.getDescriptorForType().findFieldByName(step.group(1));
    List<String> rest = path.subList(1, path.size());
    if (step.group(2) == null) {
      Message.Builder inner = ((Message) builder.getField(field)).toBuilder();
      addUnknown(inner, rest, fields);
      builder.setField(field, inner.build());
    } else {
      int i = Integer.parseInt(step.group(2));
      Message.Builder inner = ((Message) builder.getRepeatedField(field, i)).toBuilder();
      addUnknown(inner, rest, fields);
      builder.setRepeatedField(field, i, inner.build());
    }
  }
}
