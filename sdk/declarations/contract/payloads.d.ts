/** Schemas of the values that protocol rows carry. Each is declared here once. */
import { z } from 'zod';
/** An opaque id, made by Bulkhead or by the agent runtime. */
export declare const id: z.ZodString;
/** Longest text of a time in a host call: a fraction of a second may have any number of digits. Characters. */
export declare const TIME_MAX_CHARS = 40;
/** The last millisecond whose year has four digits, in UTC. */
export declare const TIME_MAX_MS: number;
/** The first millisecond of the year 1, in UTC. */
export declare const TIME_MIN_MS: number;
/** A time in ISO 8601 with an offset. In UTC its year has four digits, too: others cannot be written in an answer. */
export declare const timestamp: z.ZodISODateTime;
/** The name of a tool, command, provider or setting. `__` is reserved: it separates slug and tool name. */
export declare const surfaceName: z.ZodString;
/** Bytes: a `Uint8Array` in the supervisor and in the child. */
export declare const bytes: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
/** Any JSON value. A plain walk: zod's own schema takes 20 times as long, and every value of a call passes here. */
export declare const json: z.ZodCustom<z.JSONType, z.JSONType>;
export declare const jsonObject: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
export declare const settings: z.ZodRecord<z.ZodString, z.ZodString>;
/** Node reads no more of one message. */
export declare const HEADERS_MAX = 2000;
/** Characters of one header. A request of a plugin has 32 KiB of headers at most, and Node reads 16 KiB of a webhook's. */
export declare const HEADER_MAX_CHARS: number;
/** The longest text of one transcript message or prompt, in characters. */
export declare const TEXT_MAX_CHARS = 262144;
/** The longest reason of a cancelled operation, in characters. The transcript shows it. */
export declare const REASON_MAX_CHARS = 500;
export declare const text: z.ZodString;
export declare const reason: z.ZodString;
/** The description of a tool or command, in characters. */
export declare const description: (max: number) => z.ZodString;
export declare const agent: z.ZodObject<{
    id: z.ZodString;
    name: z.ZodString;
}, z.core.$strip>;
export declare const sessionRef: z.ZodObject<{
    id: z.ZodString;
    channelId: z.ZodNullable<z.ZodString>;
}, z.core.$strip>;
/** The cause of an operation. */
export declare const trigger: z.ZodEnum<{
    agent: "agent";
    channel: "channel";
    schedule: "schedule";
    system: "system";
    tool: "tool";
    user: "user";
}>;
export declare const attachment: z.ZodObject<{
    name: z.ZodString;
    mediaType: z.ZodString;
    mediaId: z.ZodOptional<z.ZodString>;
    url: z.ZodOptional<z.ZodURL>;
}, z.core.$strip>;
export declare const attachments: z.ZodArray<z.ZodObject<{
    name: z.ZodString;
    mediaType: z.ZodString;
    mediaId: z.ZodOptional<z.ZodString>;
    url: z.ZodOptional<z.ZodURL>;
}, z.core.$strip>>;
export declare const role: z.ZodEnum<{
    assistant: "assistant";
    notice: "notice";
    system: "system";
    tool: "tool";
    user: "user";
}>;
export declare const transcriptMessage: z.ZodObject<{
    id: z.ZodString;
    role: z.ZodEnum<{
        assistant: "assistant";
        notice: "notice";
        system: "system";
        tool: "tool";
        user: "user";
    }>;
    text: z.ZodString;
    at: z.ZodISODateTime;
    data: z.ZodOptional<z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>>;
}, z.core.$strip>;
/** Messages of a summarizer's context: more than the 20,000 values in each MiB of a body that the session API accepts. */
export declare const SUMMARIZED_MESSAGES_MAX = 100000;
/** The judgement of the hooks about a message. */
export declare const judgement: z.ZodObject<{
    hook: z.ZodString;
    outcome: z.ZodEnum<{
        cancelled: "cancelled";
        changed: "changed";
        unchanged: "unchanged";
    }>;
    asked: z.ZodNumber;
    by: z.ZodArray<z.ZodString>;
    reason: z.ZodNullable<z.ZodString>;
}, z.core.$strip>;
/** A message of a model conversation. */
export declare const chatMessage: z.ZodObject<{
    role: z.ZodEnum<{
        assistant: "assistant";
        system: "system";
        user: "user";
    }>;
    text: z.ZodString;
}, z.core.$strip>;
export declare const inbound: z.ZodObject<{
    id: z.ZodString;
    from: z.ZodString;
    text: z.ZodString;
    attachments: z.ZodDefault<z.ZodArray<z.ZodObject<{
        name: z.ZodString;
        mediaType: z.ZodString;
        mediaId: z.ZodOptional<z.ZodString>;
        url: z.ZodOptional<z.ZodURL>;
    }, z.core.$strip>>>;
}, z.core.$strip>;
export declare const outbound: z.ZodObject<{
    id: z.ZodString;
    text: z.ZodString;
    attachments: z.ZodDefault<z.ZodArray<z.ZodObject<{
        name: z.ZodString;
        mediaType: z.ZodString;
        mediaId: z.ZodOptional<z.ZodString>;
        url: z.ZodOptional<z.ZodURL>;
    }, z.core.$strip>>>;
}, z.core.$strip>;
/** The longest text before a piece that a plugin gets with it, in characters. */
export declare const BEFORE_MAX_CHARS = 4096;
/** Set where `message.text` is one piece of a message that is being streamed. */
export declare const partial: z.ZodObject<{
    before: z.ZodString;
    done: z.ZodBoolean;
}, z.core.$strip>;
export declare const todoFields: z.ZodObject<{
    title: z.ZodString;
    notes: z.ZodString;
    dueAt: z.ZodNullable<z.ZodISODateTime>;
}, z.core.$strip>;
export declare const newTodo: z.ZodObject<{
    title: z.ZodString;
    dueAt: z.ZodNullable<z.ZodISODateTime>;
    notes: z.ZodDefault<z.ZodString>;
    assigneeAgentId: z.ZodNullable<z.ZodString>;
}, z.core.$strip>;
/** Without defaults: a field that is left out does not change. */
export declare const todoChanges: z.ZodObject<{
    title: z.ZodOptional<z.ZodString>;
    notes: z.ZodOptional<z.ZodString>;
    dueAt: z.ZodOptional<z.ZodNullable<z.ZodISODateTime>>;
    assigneeAgentId: z.ZodOptional<z.ZodNullable<z.ZodString>>;
    done: z.ZodOptional<z.ZodBoolean>;
}, z.core.$strip>;
export declare const todo: z.ZodObject<{
    title: z.ZodString;
    dueAt: z.ZodNullable<z.ZodISODateTime>;
    notes: z.ZodDefault<z.ZodString>;
    assigneeAgentId: z.ZodNullable<z.ZodString>;
    id: z.ZodString;
    done: z.ZodBoolean;
}, z.core.$strip>;
export declare const newNotify: z.ZodObject<{
    text: z.ZodString;
    at: z.ZodISODateTime;
    repeat: z.ZodNullable<z.ZodString>;
    zone: z.ZodDefault<z.ZodNullable<z.ZodString>>;
    to: z.ZodString;
}, z.core.$strip>;
/** A notification that is due. */
export declare const dueNotify: z.ZodObject<{
    id: z.ZodString;
    text: z.ZodString;
    to: z.ZodString;
    at: z.ZodDefault<z.ZodNullable<z.ZodISODateTime>>;
    repeat: z.ZodDefault<z.ZodNullable<z.ZodString>>;
    zone: z.ZodDefault<z.ZodNullable<z.ZodString>>;
}, z.core.$strip>;
/** An id that runtimes may leave out. */
export declare const laterId: z.ZodDefault<z.ZodNullable<z.ZodString>>;
export declare const sshHost: z.ZodObject<{
    id: z.ZodString;
    name: z.ZodString;
}, z.core.$strip>;
/** A host that runtimes may leave out. */
export declare const laterSshHost: z.ZodDefault<z.ZodNullable<z.ZodObject<{
    id: z.ZodString;
    name: z.ZodString;
}, z.core.$strip>>>;
export declare const sshOutput: z.ZodObject<{
    exitCode: z.ZodNullable<z.ZodNumber>;
    stdout: z.ZodString;
    stderr: z.ZodString;
}, z.core.$strip>;
export declare const sshOptions: z.ZodObject<{
    cwd: z.ZodOptional<z.ZodString>;
    env: z.ZodOptional<z.ZodRecord<z.ZodString, z.ZodString>>;
    timeoutMs: z.ZodOptional<z.ZodNumber>;
    input: z.ZodOptional<z.ZodString>;
}, z.core.$strip>;
/** One part of a tool result, as in the Model Context Protocol. */
export declare const content: z.ZodDiscriminatedUnion<[z.ZodObject<{
    type: z.ZodLiteral<"text">;
    text: z.ZodString;
}, z.core.$strip>, z.ZodObject<{
    type: z.ZodLiteral<"image">;
    data: z.ZodString;
    mimeType: z.ZodString;
}, z.core.$strip>, z.ZodObject<{
    type: z.ZodLiteral<"json">;
    json: z.ZodCustom<z.JSONType, z.JSONType>;
}, z.core.$strip>], "type">;
/** A call of a tool; `name` is the full name, such as `notes__add`. */
export declare const toolCall: z.ZodObject<{
    id: z.ZodString;
    name: z.ZodString;
    arguments: z.ZodCustom<z.JSONType, z.JSONType>;
}, z.core.$strip>;
export declare const toolResult: z.ZodObject<{
    content: z.ZodArray<z.ZodDiscriminatedUnion<[z.ZodObject<{
        type: z.ZodLiteral<"text">;
        text: z.ZodString;
    }, z.core.$strip>, z.ZodObject<{
        type: z.ZodLiteral<"image">;
        data: z.ZodString;
        mimeType: z.ZodString;
    }, z.core.$strip>, z.ZodObject<{
        type: z.ZodLiteral<"json">;
        json: z.ZodCustom<z.JSONType, z.JSONType>;
    }, z.core.$strip>], "type">>;
    isError: z.ZodBoolean;
}, z.core.$strip>;
/** A JSON Schema 2020-12. The API checks at publish that it is valid. */
export declare const jsonSchema: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
export declare const model: z.ZodObject<{
    id: z.ZodString;
    name: z.ZodString;
    contextWindow: z.ZodOptional<z.ZodNumber>;
}, z.core.$strip>;
export declare const completionRequest: z.ZodObject<{
    model: z.ZodOptional<z.ZodString>;
    system: z.ZodOptional<z.ZodString>;
    messages: z.ZodArray<z.ZodObject<{
        role: z.ZodEnum<{
            assistant: "assistant";
            system: "system";
            user: "user";
        }>;
        text: z.ZodString;
    }, z.core.$strip>>;
    maxTokens: z.ZodOptional<z.ZodNumber>;
    temperature: z.ZodOptional<z.ZodNumber>;
    schema: z.ZodOptional<z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>>;
}, z.core.$strip>;
/** A function that a model may call. */
export declare const modelTool: z.ZodObject<{
    name: z.ZodString;
    description: z.ZodString;
    parameters: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
}, z.core.$strip>;
/** A message to a plugin's model. `tool` is the result of a call, whose id is `toolCallId`. */
export declare const providerMessage: z.ZodObject<{
    role: z.ZodEnum<{
        assistant: "assistant";
        system: "system";
        tool: "tool";
        user: "user";
    }>;
    text: z.ZodString;
    images: z.ZodOptional<z.ZodArray<z.ZodObject<{
        data: z.ZodString;
        mimeType: z.ZodString;
    }, z.core.$strip>>>;
    toolCalls: z.ZodOptional<z.ZodArray<z.ZodObject<{
        id: z.ZodString;
        name: z.ZodString;
        arguments: z.ZodCustom<z.JSONType, z.JSONType>;
    }, z.core.$strip>>>;
    toolCallId: z.ZodOptional<z.ZodString>;
}, z.core.$strip>;
export declare const providerRequest: z.ZodObject<{
    model: z.ZodOptional<z.ZodString>;
    system: z.ZodOptional<z.ZodString>;
    maxTokens: z.ZodOptional<z.ZodNumber>;
    temperature: z.ZodOptional<z.ZodNumber>;
    schema: z.ZodOptional<z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>>;
    messages: z.ZodArray<z.ZodObject<{
        role: z.ZodEnum<{
            assistant: "assistant";
            system: "system";
            tool: "tool";
            user: "user";
        }>;
        text: z.ZodString;
        images: z.ZodOptional<z.ZodArray<z.ZodObject<{
            data: z.ZodString;
            mimeType: z.ZodString;
        }, z.core.$strip>>>;
        toolCalls: z.ZodOptional<z.ZodArray<z.ZodObject<{
            id: z.ZodString;
            name: z.ZodString;
            arguments: z.ZodCustom<z.JSONType, z.JSONType>;
        }, z.core.$strip>>>;
        toolCallId: z.ZodOptional<z.ZodString>;
    }, z.core.$strip>>;
    tools: z.ZodOptional<z.ZodArray<z.ZodObject<{
        name: z.ZodString;
        description: z.ZodString;
        parameters: z.ZodCustom<Record<string, z.JSONType>, Record<string, z.JSONType>>;
    }, z.core.$strip>>>;
}, z.core.$strip>;
export declare const usage: z.ZodObject<{
    inputTokens: z.ZodNumber;
    outputTokens: z.ZodNumber;
}, z.core.$strip>;
export declare const completion: z.ZodObject<{
    text: z.ZodString;
    json: z.ZodOptional<z.ZodCustom<z.JSONType, z.JSONType>>;
    model: z.ZodString;
    usage: z.ZodObject<{
        inputTokens: z.ZodNumber;
        outputTokens: z.ZodNumber;
    }, z.core.$strip>;
}, z.core.$strip>;
/** `toolCalls` are the calls that the model asks for, of the tools in the request. */
export declare const providerCompletion: z.ZodObject<{
    text: z.ZodString;
    json: z.ZodOptional<z.ZodCustom<z.JSONType, z.JSONType>>;
    model: z.ZodString;
    usage: z.ZodObject<{
        inputTokens: z.ZodNumber;
        outputTokens: z.ZodNumber;
    }, z.core.$strip>;
    toolCalls: z.ZodOptional<z.ZodArray<z.ZodObject<{
        id: z.ZodString;
        name: z.ZodString;
        arguments: z.ZodCustom<z.JSONType, z.JSONType>;
    }, z.core.$strip>>>;
}, z.core.$strip>;
/** Characters of the arguments of all tool calls that an answer yields: in UTF-8 they take up to three bytes each, and fit into a frame. */
export declare const YIELDED_ARGUMENTS_MAX_CHARS: number;
/**
 * A piece of an answer, in order: more of its text, or more of one tool call. `index` is the call's place in `toolCalls`; its first
 * piece has `id` and `name`, and the pieces of `argumentsText` together are the JSON of its arguments.
 */
export declare const providerDelta: z.ZodObject<{
    text: z.ZodOptional<z.ZodString>;
    toolCall: z.ZodOptional<z.ZodObject<{
        index: z.ZodNumber;
        id: z.ZodOptional<z.ZodString>;
        name: z.ZodOptional<z.ZodString>;
        argumentsText: z.ZodOptional<z.ZodString>;
    }, z.core.$strip>>;
}, z.core.$strip>;
export declare const channelRequest: z.ZodObject<{
    deliveryId: z.ZodString;
    attempt: z.ZodNumber;
    channelId: z.ZodString;
    routingId: z.ZodString;
    receivedAt: z.ZodISODateTime;
    method: z.ZodString;
    query: z.ZodString;
    headers: z.ZodRecord<z.ZodString, z.ZodString>;
    rawHeaders: z.ZodArray<z.ZodTuple<[z.ZodString, z.ZodString], null>>;
    bodyText: z.ZodString;
    bodyBytes: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
}, z.core.$strip>;
export declare const channelMessage: z.ZodObject<{
    conversationKey: z.ZodString;
    from: z.ZodString;
    text: z.ZodString;
    attachments: z.ZodOptional<z.ZodArray<z.ZodObject<{
        name: z.ZodString;
        mediaType: z.ZodString;
        mediaId: z.ZodOptional<z.ZodString>;
        url: z.ZodOptional<z.ZodURL>;
    }, z.core.$strip>>>;
}, z.core.$strip>;
/** Every attempt at a reply has the same `deliveryId`, and so does a replay. */
export declare const channelReply: z.ZodObject<{
    conversationKey: z.ZodString;
    text: z.ZodString;
    attachments: z.ZodArray<z.ZodObject<{
        name: z.ZodString;
        mediaType: z.ZodString;
        mediaId: z.ZodOptional<z.ZodString>;
        url: z.ZodOptional<z.ZodURL>;
    }, z.core.$strip>>;
    deliveryId: z.ZodString;
    attempt: z.ZodNumber;
    channelId: z.ZodString;
}, z.core.$strip>;
/**
 * The headers that a handshake's response may have: those that vendors ask for (Asana, CloudEvents). Others would be
 * instructions to a proxy in front of the service, such as X-Accel-Redirect, or would replace the service's own.
 */
export declare const HANDSHAKE_HEADERS: readonly string[];
/** Vendors ask for their challenge again, which has some hundred characters. */
export declare const HANDSHAKE_BODY_MAX_CHARS = 65536;
export declare const handshakeAnswer: z.ZodObject<{
    status: z.ZodNumber;
    headers: z.ZodOptional<z.ZodRecord<z.ZodString, z.ZodString>>;
    body: z.ZodOptional<z.ZodString>;
}, z.core.$strip>;
export declare const fileEntry: z.ZodObject<{
    path: z.ZodString;
    sizeBytes: z.ZodNumber;
    updatedAt: z.ZodISODateTime;
}, z.core.$strip>;
export declare const agentRecord: z.ZodObject<{
    id: z.ZodString;
    name: z.ZodString;
    instructions: z.ZodString;
    model: z.ZodNullable<z.ZodString>;
}, z.core.$strip>;
export declare const agentFields: z.ZodObject<{
    name: z.ZodString;
    instructions: z.ZodOptional<z.ZodString>;
    model: z.ZodOptional<z.ZodNullable<z.ZodString>>;
}, z.core.$strip>;
/** The method of `webhooks`, without `verify`. */
export declare const signatureScheme: z.ZodEnum<{
    GitHub: "GitHub";
    Slack: "Slack";
    Standard: "Standard";
    Stripe: "Stripe";
}>;
export declare const httpInit: z.ZodObject<{
    method: z.ZodOptional<z.ZodEnum<{
        DELETE: "DELETE";
        GET: "GET";
        HEAD: "HEAD";
        PATCH: "PATCH";
        POST: "POST";
        PUT: "PUT";
    }>>;
    headers: z.ZodOptional<z.ZodRecord<z.ZodString, z.ZodString>>;
    body: z.ZodOptional<z.ZodUnion<readonly [z.ZodString, z.ZodInstanceOf<Uint8Array<ArrayBuffer>>]>>;
    timeoutMs: z.ZodOptional<z.ZodNumber>;
    redirect: z.ZodOptional<z.ZodEnum<{
        error: "error";
        follow: "follow";
    }>>;
}, z.core.$strip>;
export declare const httpAnswer: z.ZodObject<{
    status: z.ZodNumber;
    headers: z.ZodRecord<z.ZodString, z.ZodString>;
    bodyText: z.ZodString;
    bodyBytes: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
}, z.core.$strip>;
/** The same for `fetch`, which answers when the headers have arrived. `headers` joins the `Set-Cookie` headers. */
export declare const openedHttpAnswer: z.ZodObject<{
    status: z.ZodNumber;
    headers: z.ZodRecord<z.ZodString, z.ZodString>;
    bodyText: z.ZodString;
    bodyBytes: z.ZodInstanceOf<Uint8Array<ArrayBuffer>>;
    setCookies: z.ZodArray<z.ZodString>;
}, z.core.$strip>;
