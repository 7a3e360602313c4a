// Two prompts to a loop of tools of the Vercel AI SDK.
import { OpenTelemetry } from "@ai-sdk/otel";
import { createOpenAI } from "@ai-sdk/openai";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { generateText, registerTelemetry, stepCountIs, tool } from "ai";
import { z } from "zod";

const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter() });
sdk.start();
registerTelemetry(new OpenTelemetry({ runtimeContext: true }));
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: "none" });
const lookUp = tool({
  description: "Return the country of a place.",
  inputSchema: z.object({ place: z.string() }),
  execute: async ({ place }) => {
    if (place !== "Oslo") throw new Error(`${place} is unknown`);
    return "Norway";
  },
});
let messages = [];
for (const prompt of ["Where are Oslo and Atlantis?", "Are you sure?"]) {
  messages.push({ role: "user", content: prompt });
  const answer = await generateText({
    model: openai.chat("gpt-4.1-mini"),
    messages,
    tools: { look_up: lookUp },
    stopWhen: stepCountIs(5),
    runtimeContext: { sessionId: "vercel-session" },
    telemetry: { includeRuntimeContext: { sessionId: true } },
  });
  messages = [...messages, ...answer.responseMessages];
}
await sdk.shutdown();
