/* Mangled names made readable, beside what c++filt of binutils makes of them; garbage; and labels of operations. */
#include "unit.h"

#include "watch/symbols.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct pair {
    const char *mangled, *readable;
} pair;

/* From the dynamic symbols of libtorch_cpu, libc10 and libstdc++. */
static const pair real[] = {
    {"_ZN2at4_ops7all_dim4callERKNS_6TensorElb", "at::_ops::all_dim::call"},
    {"_ZN2at4_ops17set_source_Tensor4callERKNS_6TensorES4_", "at::_ops::set_source_Tensor::call"},
    {"_ZN2at4_ops22_foreach_maximum__List10redispatchEN3c1014DispatchKeySetENS2_8ArrayRefINS_6TensorEEES6_",
     "at::_ops::_foreach_maximum__List::redispatch"},
    {"_ZN2at4_ops9floor_out10redispatchEN3c1014DispatchKeySetERKNS_6TensorERS4_", "at::_ops::floor_out::redispatch"},
    {"_ZN2at6native11lapackSyevdIddEEvcciPT_iPT0_S3_iS5_iPiiS6_", "at::native::lapackSyevd"},
    {"_ZN2at6native7std_outERKNS_6TensorEN3c108ArrayRefINS_7DimnameEEEbbRS1_", "at::native::std_out"},
    {"_ZN5torch8autograd9generated29UniqueDimConsecutiveBackward05applyEOSt6vectorIN2at6TensorESaIS5_EE",
     "torch::autograd::generated::UniqueDimConsecutiveBackward0::apply"},
    {"_ZN5torch8autograd9generated15FftC2RBackward05applyEOSt6vectorIN2at6TensorESaIS5_EE", "torch::autograd::generated::FftC2RBackward0::apply"},
    {"_ZTVN5torch8autograd9generated12MinBackward0E", "vtable for torch::autograd::generated::MinBackward0"},
    {"_ZTVN5torch8autograd9generated14RoundBackward1E", "vtable for torch::autograd::generated::RoundBackward1"},
    {"_ZTIN2at4meta30structured_adaptive_max_pool2dE", "typeinfo for at::meta::structured_adaptive_max_pool2d"},
    {"_ZTIN5torch2nn14HardshrinkImplE", "typeinfo for torch::nn::HardshrinkImpl"},
    {"_ZN3c106ivalue14ConstantString6createEPKc", "c10::ivalue::ConstantString::create"},
    {"_ZN3c1016DynamicTypeTraitINS_12AnyTupleTypeEE10isBaseTypeE", "c10::DynamicTypeTrait::isBaseType"},
    {"_ZTSZN4c10d16ProcessGroupGloo9AsyncWork28recordAsyncWorkProfilingInfoEPKcRKN3c108optionalISt6vectorIN2at6TensorESaIS8_EEEEEUlvE_",
     "typeinfo name for c10d::ProcessGroupGloo::AsyncWork::recordAsyncWorkProfilingInfo::{lambda#1}"},
    {"_ZTSNSt6thread11_State_implINS_8_InvokerISt5tupleIJZN6caffe26WorkerC4EPNS3_15BlockingCounterEEUlvE_EEEEEE",
     "typeinfo name for std::thread::_State_impl"},
    {"_ZNK5torch3jit10tensorexpr8LoopNest32getAllInnermostLoopsWritingToBufESt10shared_ptrINS1_3BufEE",
     "torch::jit::tensorexpr::LoopNest::getAllInnermostLoopsWritingToBuf"},
    {"_ZNK5torch3jit4Code10num_inputsEv", "torch::jit::Code::num_inputs"},
    {"_ZN2at14DynamicLibraryD2Ev", "at::DynamicLibrary::~DynamicLibrary"},
    {"_ZN5torch3jit11BlockRunnerD2Ev", "torch::jit::BlockRunner::~BlockRunner"},
    {"_ZN5torch4lazy8ViewInfoC1ENS1_4TypeENS0_5ShapeES3_NS0_13AsStridedInfoE", "torch::lazy::ViewInfo::ViewInfo"},
    {"_ZN5torch2nn9PReLUImplC1ERKNS0_12PReLUOptionsE", "torch::nn::PReLUImpl::PReLUImpl"},
    {"_ZZN3c1016DynamicTypeTraitINS_13DeviceObjTypeEE11getBaseTypeIRKSt10shared_ptrINS_11DynamicTypeEEEENSt9enable_ifILb1ET_E4typeEvE4type",
     "c10::DynamicTypeTrait::getBaseType::type"},
    {"_ZZN5torch8profiler4impl19ThreadLocalSubqueue14TorchOpStorage10EventBlockINS1_21KinetoObserverContext5EventELm512EEC4EvE8counter_",
     "torch::profiler::impl::ThreadLocalSubqueue::TorchOpStorage::EventBlock::EventBlock::counter_"},
    {"_ZGVZN3c1016DynamicTypeTraitINS_10NumberTypeEE11getBaseTypeIRKSt10shared_ptrINS_11DynamicTypeEEEENSt9enable_ifILb1ET_E4typeEvE4type",
     "guard variable for c10::DynamicTypeTrait::getBaseType::type"},
    {"_ZGVZNKSt8__detail11_AnyMatcherINSt7__cxx1112regex_traitsIcEELb0ELb0ELb1EEclEcE5__nul",
     "guard variable for std::__detail::_AnyMatcher::operator()::__nul"},
    {"_ZThn200_NK5torch4lazy7SizeAdd14getStaticValueEv", "non-virtual thunk to torch::lazy::SizeAdd::getStaticValue"},
    {"_ZThn200_NK5torch4lazy8SizeNode14getStaticValueEv", "non-virtual thunk to torch::lazy::SizeNode::getStaticValue"},
    {"_ZN5torch2nn23FractionalMaxPool3dImpl7forwardERKN2at6TensorE", "torch::nn::FractionalMaxPool3dImpl::forward"},
    {"_ZN5torch2nn12UpsampleImplC2ERKNS0_15UpsampleOptionsE", "torch::nn::UpsampleImpl::UpsampleImpl"},
    {"_ZN2at4_ops16cumprod__dimname10redispatchEN3c1014DispatchKeySetERNS_6TensorENS_7DimnameENS2_8optionalINS2_10ScalarTypeEEE",
     "at::_ops::cumprod__dimname::redispatch"},
    {"_ZN2at16SparseTensorImplC1EN3c1014DispatchKeySetEN6caffe28TypeMetaENS_6TensorES5_", "at::SparseTensorImpl::SparseTensorImpl"},
    {"_ZNSt11_Deque_baseIN5torch3jit6ModuleESaIS2_EED1Ev", "std::_Deque_base::~_Deque_base"},
    {"_ZNSt6vectorIN3c106SymbolESaIS1_EE17_M_realloc_insertIJRKS1_EEEvN9__gnu_cxx17__normal_iteratorIPS1_S3_EEDpOT_",
     "std::vector::_M_realloc_insert"},
    {"_ZN2at6native12DispatchStubIPFvRNS_6TensorES3_S3_RKS2_N3c108ArrayRefIS2_EES8_bldbbbENS0_15lstm_cudnn_stubEE4AVX2E",
     "at::native::DispatchStub::AVX2"},
    {"_ZN2at4_ops38linalg_matrix_rank_atol_rtol_float_out10redispatchEN3c1014DispatchKeySetERKNS_6TensorENS2_8optionalIdEES8_bRS4_",
     "at::_ops::linalg_matrix_rank_atol_rtol_float_out::redispatch"},
    {"_Z14MakeInputShapeILm3EESt5arrayIlXT_EElll", "MakeInputShape"},
    {"_Z20register_conv_paramsILi2EEiv", "register_conv_params"},
    {"_ZN3c1021AutogradMetaInterfaceD2Ev", "c10::AutogradMetaInterface::~AutogradMetaInterface"},
    {"_ZN3c1017SetAPIUsageLoggerESt8functionIFvRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEEE", "c10::SetAPIUsageLogger"},
    {"_ZNK3c106SymIntmlEl", "c10::SymInt::operator*"},
    {"_ZNK3c1010TensorImpl37compute_strides_like_channels_last_3dEv", "c10::TensorImpl::compute_strides_like_channels_last_3d"},
    {"_ZTVN3c1014WarningHandlerE", "vtable for c10::WarningHandler"},
    {"_ZTVN3c1015VariableVersion14VersionCounterE", "vtable for c10::VariableVersion::VersionCounter"},
    {"_ZN3c10lsERSoRKNS_13TensorOptionsE", "c10::operator<<"},
    {"_ZN3c10lsERSoNS_6SymIntE", "c10::operator<<"},
    {"_ZN3c1015SmallVectorBaseIjE13mallocForGrowEmmRm", "c10::SmallVectorBase::mallocForGrow"},
    {"_ZN3c109alloc_cpuEm", "c10::alloc_cpu"},
    {"_ZNSt18basic_stringstreamIcSt11char_traitsIcESaIcEEC2EOS3_", "std::basic_stringstream::basic_stringstream"},
    {"_ZNSt13basic_istreamIwSt11char_traitsIwEErsERy", "std::basic_istream::operator>>"},
    {"_ZNKSt9money_putIcSt19ostreambuf_iteratorIcSt11char_traitsIcEEE9_M_insertILb0EEES3_S3_RSt8ios_basecRKSs", "std::money_put::_M_insert"},
    {"_ZNKSt11__timepunctIwE19_M_days_abbreviatedEPPKw", "std::__timepunct::_M_days_abbreviated"},
    {"_ZStlsIecSt11char_traitsIcEERSt13basic_ostreamIT0_T1_ES6_RKSt7complexIT_E", "std::operator<<"},
    {"_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_c", "std::operator<<"},
    {"_ZNSoC1EPSt15basic_streambufIcSt11char_traitsIcEE", "std::basic_ostream::basic_ostream"},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", "operator new"},
    {"_ZnwmSt11align_val_t", "operator new"},
    {"_ZTv0_n24_NSdD0Ev", "virtual thunk to std::basic_iostream::~basic_iostream"},
    {"_ZTv0_n24_NSt19basic_ostringstreamIwSt11char_traitsIwESaIwEED0Ev", "virtual thunk to std::basic_ostringstream::~basic_ostringstream"},
    {"_ZNSt8ios_base7failureB5cxx11C2EPKcRKSt10error_code", "std::ios_base::failure::failure"},
    {"_ZNKSt8ios_base7failureB5cxx114whatEv", "std::ios_base::failure::what"},
    {"_ZN9__gnu_cxx18stdio_sync_filebufIcSt11char_traitsIcEED0Ev", "__gnu_cxx::stdio_sync_filebuf::~stdio_sync_filebuf"},
    {"_ZN9__gnu_cxx18stdio_sync_filebufIwSt11char_traitsIwEE4fileEv", "__gnu_cxx::stdio_sync_filebuf::file"},
};

static const pair made[] = {
    {"", ""},
    {"main", "main"},
    {"_Z", "_Z"},
    {"_ZN2at6native4reluERKNS_6TensorE", "at::native::relu"},
    {"_ZTVN5torch8autograd9generated12AddBackward0E", "vtable for torch::autograd::generated::AddBackward0"},
    {"_Z3foov.part.0", "foo"},
    {"_ZL3foov", "foo"},
    {"_ZN2at6native12_GLOBAL__N_13fooERNS_18TensorIteratorBaseE", "at::native::(anonymous namespace)::foo"},
    {"_ZZN2at6native12_GLOBAL__N_13fooERNS_18TensorIteratorBaseEENKUlvE_clEv", "at::native::(anonymous namespace)::foo::{lambda#1}::operator()"},
    {"_ZZZN2at6native3fooEvENKUlvE_clEvENKUlvE0_clEv", "at::native::foo::{lambda#1}::operator()::{lambda#2}::operator()"},
    {"_ZNSt17_Function_handlerIFvvEZN3foo3barEvEUlvE_E9_M_invokeERKSt9_Any_data", "std::_Function_handler::_M_invoke"},
    {"_ZNKR3foo3barEv", "foo::bar"},
    {"_ZN3fooC1Ev", "foo::foo"},
    {"_ZN3fooD0Ev", "foo::~foo"},
    {"_ZN3fooIiEC2IdEET_", "foo::foo"},
    {"_ZN3foocvbEv", "foo::operator bool"},
    {"_ZN3foocvPKcEv", "foo::operator char const*"},
    {"_ZNSs4sizeEv", "std::string::size"},
    {"_ZNSsC1Ev", "std::basic_string::basic_string"},
    {"_ZN1aIXgtT_Li3EEE1bEv", "a::b"},
    {"_ZN1aILin3EE1bILb1EEEvv", "a::b"},
    {"_ZN1aIJidEE1bEv", "a::b"},
    {"_ZN3fooUt_C1Ev", "foo::{unnamed type#1}::{unnamed type#1}"},
    {"_ZTIPKc", "typeinfo for char const*"},
    {"_ZN3fooixEm", "foo::operator[]"},
    {"_Zli2_wPKc", "operator\"\" _w"},
};

static void check(const pair *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[256];
        plim__symbol_readable(list[i].mangled, text, sizeof text);
        if (strcmp(text, list[i].readable)) fail_msg("%s: \"%s\", expected \"%s\"", list[i].mangled, text, list[i].readable);
    }
}

static void real_names(void **state)
{
    (void)state;
    assert_true(COUNT_OF(real) >= 60);
    check(real, COUNT_OF(real));
}

static void made_names(void **state)
{
    (void)state;
    check(made, COUNT_OF(made));
    char text[8];
    plim__symbol_readable("_ZN2at6native4reluERKNS_6TensorE", text, sizeof text);
    assert_string_equal(text, "at::nat");
    plim__symbol_readable("a_long_name_of_c", text, sizeof text);
    assert_string_equal(text, "a_long_");
}

/* ---- beside c++filt ---- */

/* Takes template arguments, parameters and qualifiers off what c++filt prints. `depth` counts brackets; those of operators and of the anonymous
 * namespace stay. */
static void simplify(char *out, const char *in)
{
    static const char *const keep[] = {"(anonymous namespace)", "operator()", "operator<<=", "operator>>=", "operator<=>", "operator<<", "operator>>",
                                       "operator<=", "operator>=", "operator->*", "operator->", "operator<", "operator>"};
    static const char *const drop[] = {" const", "[abi:cxx11]"};
    int depth = 0;
    const char *begin = out;
    for (const char *p = in; *p;) {
        size_t k = 0, d = 0;
        while (k < COUNT_OF(keep) && strncmp(p, keep[k], strlen(keep[k]))) k++;
        while (d < COUNT_OF(drop) && strncmp(p, drop[d], strlen(drop[d]))) d++;
        const size_t n = k < COUNT_OF(keep) ? strlen(keep[k]) : 1;
        if (d < COUNT_OF(drop) && depth == 0 && (p[strlen(drop[d])] == 0 || p[strlen(drop[d])] == ':' || drop[d][0] == '[')) {
            p += strlen(drop[d]);
            continue;
        }
        if (n > 1 && depth == 0) {
            memcpy(out, p, n);
            out += n;
        } else if (n == 1 && (*p == '<' || *p == '(')) {
            depth++;
        } else if (n == 1 && (*p == '>' || *p == ')')) {
            depth--;
        } else if (n == 1 && depth == 0) {
            *out++ = *p;
        }
        p += n;
    }
    while (out > begin && out[-1] == ' ') out--; /* "operator<< <char>" */
    *out = 0;
}

/* Function types, transactions and short names of streams are said in another way. */
static bool comparable(const char *mangled)
{
    static const char *const other[] = {"_ZGTt", "_ZTIF", "_ZTIPF", "_ZTSF", "_ZTSPF", "Ed_"};
    for (size_t i = 0; i < COUNT_OF(other); i++)
        if (strstr(mangled, other[i])) return false;
    for (const char *p = mangled; (p = strchr(p, 'S')); p++)
        if (p[1] && strchr("siod", p[1])) return false;
    return strlen(mangled) < 1000;
}

static uint32_t library_compare(const char *library, uint32_t *different)
{
    static char line[1 << 16], want[1 << 16], got[1 << 16], command[1024];
    snprintf(command, sizeof command,
             "f=$(mktemp) && nm -D --defined-only '%s' | awk '$3 ~ /^_Z/ && n++ %% 5 == 0 { sub(/@.*/, \"\", $3); print $3 }' >$f"
             " && c++filt -p <$f | paste $f -; rm -f $f",
             library);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    uint32_t n = 0;
    while (fgets(line, sizeof line, f)) {
        char *tab = strchr(line, '\t');
        if (!tab) continue;
        *tab++ = 0;
        tab[strcspn(tab, "\n")] = 0;
        if (!comparable(line) || !strcmp(line, tab)) continue;
        simplify(want, tab);
        plim__symbol_readable(line, got, sizeof got);
        n++;
        if (!strcmp(want, got)) continue;
        if (++*different <= 5) print_message("%s: \"%s\", c++filt says \"%s\"\n", line, got, want);
    }
    pclose(f);
    return n;
}

static void libraries_beside_cxxfilt(void **state)
{
    (void)state;
    glob_t found;
    const bool tools = system("command -v c++filt nm paste awk >/dev/null 2>&1") == 0;
    if (!tools || glob("/usr/lib/*/lib{stdc++.so.6,c10.so,torch_cpu.so}", GLOB_BRACE, NULL, &found)) {
        print_message("SKIPPED: needs binutils, and libstdc++ or libtorch\n");
        skip();
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        uint32_t different = 0;
        const uint32_t n = library_compare(found.gl_pathv[i], &different);
        print_message("%s: %u names, %u different\n", strrchr(found.gl_pathv[i], '/') + 1, n, different);
        assert_true(different <= n / 200); /* half a percent */
    }
    globfree(&found);
}

/* ---- garbage ---- */

static void look(const char *mangled)
{
    char text[160];
    memset(text, 'x', sizeof text);
    plim__symbol_readable(mangled, text, sizeof text);
    assert_true(strnlen(text, sizeof text) < sizeof text);
}

static void cut_and_changed_names(void **state)
{
    (void)state;
    static const char letters[] = "SNIETPKRXLJZDUTFMAv_0123456789lstcv\x80";
    uint32_t seed = 1;
    for (size_t i = 0; i < COUNT_OF(real) + COUNT_OF(made); i++) {
        const char *from = i < COUNT_OF(real) ? real[i].mangled : made[i - COUNT_OF(real)].mangled;
        const size_t n = strlen(from);
        char *copy = malloc(n + 1); /* of exact size, so that a sanitizer sees a read beyond it */
        assert_non_null(copy);
        for (size_t k = 0; k <= n; k++) {
            memcpy(copy, from, n + 1);
            copy[k] = 0;
            look(copy);
        }
        for (int round = 0; n > 2 && round < 300; round++) {
            memcpy(copy, from, n + 1);
            for (int change = 0; change < 3; change++) {
                seed = seed * 1664525 + 1013904223;
                copy[2 + (seed >> 8) % (n - 2)] = letters[(seed >> 20) % (sizeof letters - 1)];
            }
            look(copy);
        }
        free(copy);
    }
}

static void deep_and_long_names(void **state)
{
    (void)state;
    static const char *const parts[] = {"N",  "I", "P",    "Z",   "1aI",  "N1a", "F",     "X",  "Xcl", "T_", "S_",
                                        "DpT", "LZ", "J", "UlE_", "NSt", "Th0_", "1a", "1aIiE", "Dt", "M"};
    enum { N = 100000 };
    char *text = malloc(N + 64);
    assert_non_null(text);
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        for (int nested = 0; nested < 2; nested++) {
            size_t n = (size_t)sprintf(text, nested ? "_ZN" : "_Z");
            while (n < N) n += (size_t)sprintf(text + n, "%s", parts[i]);
            look(text);
        }
    }
    free(text);
    look("_Z4294967296a");
    look("_Z99999999999999999999a");
    look("_ZSZZZZZZZZZZZZZ_");
    look("_ZTZZZZ_");
}

/* ---- labels ---- */

static void label_is(const char *want, const char *const *name)
{
    plim__symbol s[16] = {0};
    uint32_t n = 0;
    char text[64];
    for (; name[n]; n++) snprintf(s[n].name, sizeof s[n].name, "%s", name[n]);
    assert_int_equal(plim__symbol_label(s, n, text, sizeof text), want != NULL);
    assert_string_equal(text, want ? want : "");
}

#define STACK(...) (const char *const[]) {__VA_ARGS__, NULL}

/* Stacks as torch 1.13 has them, innermost first. */
static void labels(void **state)
{
    (void)state;
    label_is("aten::linear", STACK("c10::alloc_cpu", "", "at::detail::empty_generic", "at::detail::empty_cpu", "", "at::meta::structured_addmm::meta",
                                   "at::_ops::addmm::redispatch", "", "at::_ops::addmm::call", "at::native::linear", "", "at::_ops::linear::call"));
    label_is("ConvolutionBackward0", STACK("c10::alloc_cpu", "at::_ops::empty_memory_format::call", "at::native::mkldnn_to_dense",
                                           "at::native::convolution_backward", "at::_ops::convolution_backward::redispatch",
                                           "at::_ops::convolution_backward::call",
                                           "torch::autograd::generated::ConvolutionBackward0::apply", "torch::autograd::Engine::evaluate_function",
                                           "torch::autograd::python::PythonEngine::execute", "THPEngine_run_backward"));
    label_is("AddmmBackward0", STACK("at::_ops::mm::call", "torch::autograd::generated::AddmmBackward0::apply",
                                     "torch::autograd::Engine::thread_main"));
    label_is("aten::relu", STACK("at::native::empty_cpu", "at::_ops::empty_memory_format::redispatch", "at::_ops::relu::redispatch",
                                 "at::_ops::relu::call"));
    label_is("aten::randn", STACK("at::_ops::randn::redispatch", "", "at::_ops::randn::call", ""));
    label_is(NULL, STACK("c10::alloc_cpu", "_PyEval_EvalFrameDefault", "THPEngine_run_backward", "at::_ops::call", "at::_ops::x::y::call"));
    label_is(NULL, STACK("Backward0", "aBackward::run", "Backwards::X", "XBackwardly::f"));
    label_is("XBackward", STACK("ns::XBackward::f"));
    label_is("MyBackward12", STACK("MyBackward12"));
    label_is(NULL, STACK(""));
    char text[8];
    assert_false(plim__symbol_label(NULL, 0, text, sizeof text));
    plim__symbol s = {.name = "at::_ops::convolution::call"};
    assert_true(plim__symbol_label(&s, 1, text, sizeof text));
    assert_string_equal(text, "aten::c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_names),
        cmocka_unit_test(made_names),
        cmocka_unit_test(libraries_beside_cxxfilt),
        cmocka_unit_test(cut_and_changed_names),
        cmocka_unit_test(deep_and_long_names),
        cmocka_unit_test(labels),
    };
    return cmocka_run_group_tests_name("symbol_names", tests, NULL, NULL);
}
